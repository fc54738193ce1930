"""Limits for a swept program: which CPUs it may use, how large a share of the SMs. Checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cutaway.errors import CutawayError

DRIVER = Path("/proc/driver/nvidia/version")
SM_VARIABLE = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"


def cpu_order(
    cpus: frozenset[int] | None = None, pairs: Mapping[int, tuple[int, ...]] | None = None
) -> list[int]:
    """CPUs in the order they are given out: one thread of every physical core first, then the siblings.

    >>> cpu_order(frozenset({0, 1, 2, 3}), {0: (0, 2), 1: (1, 3), 2: (0, 2), 3: (1, 3)})
    [0, 1, 2, 3]
    >>> cpu_order(frozenset({0, 1, 2, 3}), {0: (0, 1), 1: (0, 1), 2: (2, 3), 3: (2, 3)})
    [0, 2, 1, 3]
    """
    usable = frozenset(os.sched_getaffinity(0)) if cpus is None else cpus
    groups = pairs or {cpu: siblings(cpu) for cpu in usable}
    rank = {cpu: sorted(c for c in groups[cpu] if c in usable).index(cpu) for cpu in usable}
    return sorted(usable, key=lambda cpu: (rank[cpu], cpu))


def siblings(cpu: int) -> tuple[int, ...]:
    """The hardware threads of a CPU's core, itself among them."""
    path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
    try:
        text = path.read_text().strip()
    except OSError:
        return (cpu,)
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return tuple(found)


def choose_cpus(count: int | None) -> frozenset[int]:
    """The CPUs for a program that may use `count` of them; all that we may use without a limit."""
    order = cpu_order()
    if count is None:
        return frozenset(order)
    if not 1 <= count <= len(order):
        raise CutawayError(
            f"{count} CPUs were asked for and this process may use {len(order)}: sweep 1 to {len(order)}."
        )
    return frozenset(order[:count])


def sm_environment(percent: int | None) -> dict[str, str]:
    """Environment that limits a CUDA program to a share of the SMs, through the MPS server."""
    if percent is None or percent == 100:
        return {}
    if not 1 <= percent <= 100:
        raise CutawayError(f"{percent} is no share of the SMs: give a percentage from 1 to 100.")
    if not DRIVER.exists():
        raise CutawayError(
            "A share of the SMs needs an NVIDIA driver, and there is none here: leave --sm-percent out."
        )
    pipe = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")) / "control"
    if not pipe.exists():
        raise CutawayError(
            "A share of the SMs needs the MPS server: start it with `nvidia-cuda-mps-control -d`."
        )
    return {SM_VARIABLE: str(percent)}
