"""CPU limits by control group: a program cannot leave a cpuset, as it can leave an affinity it was only started with.

Version 2 (cpuset.cpus, or cpu.max where cpusets are not delegated) and version 1 (cpuset). A group is made for one program and removed
after it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cutaway.errors import CutawayError

PERIOD_US = 100_000
MOUNTS = Path("/proc/self/mounts")
OWN = Path("/proc/self/cgroup")


def places() -> Iterator[tuple[int, Path]]:
    """(version, folder) in which a group for us could be made, nearest to our own first."""
    own = dict(_own_groups())
    for line in MOUNTS.read_text().splitlines():
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup2" and "" in own:
            yield from ((2, folder) for folder in _upwards(Path(where), own[""]))
        elif kind == "cgroup" and "cpuset" in options.split(",") and "cpuset" in own:
            yield from ((1, folder) for folder in _upwards(Path(where), own["cpuset"]))


def _own_groups() -> Iterator[tuple[str, str]]:
    for line in OWN.read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            yield controller, path


def _upwards(mount: Path, path: str) -> Iterator[Path]:
    folder = mount / path.lstrip("/")
    while folder != mount:
        yield folder
        folder = folder.parent
    yield mount


@contextmanager
def group(cpus: frozenset[int], among: list[tuple[int, Path]] | None = None) -> Iterator[Path]:
    """A new group that holds its processes to these CPUs; yields the file a process writes "0" into to join. Removed at the end."""
    reasons = []
    for version, parent in list(places()) if among is None else among:
        folder = parent / f"cutaway-{os.getpid()}"
        try:
            folder.mkdir()
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            continue
        try:
            _limit(version, parent, folder, cpus)
        except OSError as error:
            reasons.append(f"{parent}: {error.strerror}")
            folder.rmdir()
            continue
        try:
            yield folder / "cgroup.procs"
        finally:
            folder.rmdir()
        return
    raise CutawayError(
        f"No control group can be made here ({'; '.join(reasons[:2]) or 'none is mounted'}): use --limit-by affinity."
    )


def _limit(version: int, parent: Path, folder: Path, cpus: frozenset[int]) -> None:
    wanted = ",".join(map(str, sorted(cpus)))
    if version == 1:
        (folder / "cpuset.mems").write_text((parent / "cpuset.mems").read_text())
        (folder / "cpuset.cpus").write_text(wanted)
        return
    offered = (parent / "cgroup.controllers").read_text().split()
    if "cpuset" in offered:
        (parent / "cgroup.subtree_control").write_text("+cpuset")
        (folder / "cpuset.cpus").write_text(wanted)
    elif "cpu" in offered:
        (parent / "cgroup.subtree_control").write_text("+cpu")
        (folder / "cpu.max").write_text(f"{len(cpus) * PERIOD_US} {PERIOD_US}")
    else:
        raise PermissionError(1, "neither cpuset nor cpu is delegated to us")


def works() -> str | None:
    """Why groups cannot be used here, in one sentence; None when they can."""
    try:
        with group(frozenset(os.sched_getaffinity(0))):
            return None
    except CutawayError as error:
        return str(error)
