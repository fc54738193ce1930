"""Limits for a measured program: which CPUs it may use, how large a share of the SMs. Checked before anything starts.

CPUs are limited by affinity or by control group: a program can change its affinity, but not leave a cpuset. Version 2 (cpuset.cpus, or
cpu.max where cpusets are not delegated) and version 1 (cpuset). A group is made for one program and removed after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cutaway.errors import CutawayError

DRIVER = Path("/proc/driver/nvidia/version")


def cpu_order(cores: Mapping[int, tuple[int, ...]] | None = None) -> list[int]:
    """CPUs in the order they are given out: one thread of every physical core first, then the siblings. `cores` says which CPUs share a
    core with each CPU; by default those that this process may use.

    >>> cpu_order({0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)})
    [0, 1, 2, 3]
    >>> cpu_order({0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)})
    [0, 2, 1, 3]
    """
    known = cores or {cpu: siblings(cpu) for cpu in os.sched_getaffinity(0)}
    rank = {
        cpu: sum(c < cpu for c in together if c in known)
        for cpu, together in known.items()
    }
    return sorted(known, key=lambda cpu: (rank[cpu], cpu))


def siblings(cpu: int) -> tuple[int, ...]:
    """The hardware threads of a CPU's core, itself among them."""
    try:
        text = Path(
            f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        ).read_text()
    except OSError:
        return (cpu,)
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def choose_cpus(count: int | None) -> frozenset[int]:
    """The CPUs for a program that may use `count` of them; all that we may use without a limit."""
    order = cpu_order()
    if count is not None and not 1 <= count <= len(order):
        most = len(order)
        raise CutawayError(
            f"You asked for {count} CPUs, but this process may use {most}; choose 1 to {most}."
        )
    return frozenset(order[:count])


def sm_environment(percent: int | None) -> dict[str, str]:
    """Environment that limits a CUDA program to a share of the SMs, through the MPS server."""
    if percent is None or percent == 100:
        return {}
    if not 1 <= percent <= 100:
        raise CutawayError(
            f"{percent} is not a share of the SMs; choose a percentage from 1 to 100."
        )
    if not DRIVER.exists():
        raise CutawayError(
            "--sm-percent needs an NVIDIA driver, and this machine has none; leave it out."
        )
    if not Path(
        os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control"
    ).exists():
        raise CutawayError(
            "--sm-percent needs the MPS server; start it with `nvidia-cuda-mps-control -d`."
        )
    return {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": str(percent)}


def places() -> Iterator[tuple[int, Path]]:
    """(version, folder) in which a group for us could be made, nearest to our own first."""
    entries = [
        line.split(":", 2)
        for line in Path("/proc/self/cgroup").read_text().splitlines()
    ]
    own = {
        controller: path
        for _, names, path in entries
        for controller in names.split(",")
    }
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, mount, kind, options = line.split()[:4]
        if kind == "cgroup2":
            version = 2
            controller = ""
        else:
            version = 1
            controller = "cpuset"
        if (
            kind.startswith("cgroup")
            and controller in own
            and controller in ("", *options.split(","))
        ):
            parts = Path(own[controller].lstrip("/")).parts
            yield from (
                (version, Path(mount, *parts[:n])) for n in range(len(parts), -1, -1)
            )


@contextmanager
def group(
    cpus: frozenset[int], among: Iterable[tuple[int, Path]] | None = None
) -> Iterator[Path]:
    """A new group that holds its processes to these CPUs; yields the file a process writes "0" into to join. Removed at the end."""
    reasons = []
    with ExitStack() as at_the_end:
        for version, parent in places() if among is None else among:
            folder = parent / f"cutaway-{os.getpid()}"
            try:
                folder.mkdir()
                at_the_end.callback(folder.rmdir)
                _limit(version, parent, folder, cpus)
            except OSError as error:
                reasons.append(f"{parent}: {error.strerror}")
                continue
            yield folder / "cgroup.procs"
            return
    why = "; ".join(reasons[:2]) or "none is mounted"
    raise CutawayError(
        f"Cutaway cannot create a control group here ({why}); use --limit-by affinity."
    )


def _limit(version: int, parent: Path, folder: Path, cpus: frozenset[int]) -> None:
    wanted = ",".join(map(str, sorted(cpus)))
    if version == 1:
        (folder / "cpuset.mems").write_text((parent / "cpuset.mems").read_text())
        (folder / "cpuset.cpus").write_text(wanted)
        return
    offered = (parent / "cgroup.controllers").read_text().split()
    quota = f"{len(cpus) * 100_000} 100000"  # µs of CPU time in µs of time
    for controller, file, text in (
        ("cpuset", "cpuset.cpus", wanted),
        ("cpu", "cpu.max", quota),
    ):
        if controller in offered:
            (parent / "cgroup.subtree_control").write_text(f"+{controller}")
            (folder / file).write_text(text)
            return
    raise PermissionError(1, "neither cpuset nor cpu is delegated to this user")


def check_groups() -> None:
    """Raises, in one sentence, when control groups cannot be used here."""
    with group(frozenset(os.sched_getaffinity(0))):
        pass
