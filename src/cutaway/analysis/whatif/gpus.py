"""Another GPU: a kernel gets faster by as much as memory does, or arithmetic, or something in between. Data sheets say how much that is;
no trace says which of them a kernel waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.whatif.graph import Graph
from cutaway.errors import CutawayError
from cutaway.machines.files import shipped
from cutaway.machines.gpu import GPUS, Gpu, load

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

UNKNOWN = "what its kernels wait for, memory or arithmetic"
_SCALED = ("kernel", "memset")


@dataclass(frozen=True)
class OnGpu:
    """The same program on another GPU than the one it was recorded on; None: the trace says which that is."""

    after: Gpu
    before: Gpu | None = None


def parse(value: str) -> OnGpu:
    """`h100`, or `v100:h100` where the recording does not say what it was made on."""
    before, colon, after = value.rpartition(":")
    return OnGpu(load(after), load(before) if colon else None)


def gpu_factors(
    run: Run, graph: Graph, change: OnGpu
) -> tuple[NDArray[np.float64], NDArray[np.float64], str]:
    """The factor of each key's time if kernels gain least and if they gain most, and what is assumed."""
    if not graph.on_devices:
        raise CutawayError(
            "No device was recorded in this run, so gpu= has nothing to scale."
        )
    before = change.before or recorded_gpu(run)
    least, most = gains(before, change.after)
    scaled = np.array([key.layer in _SCALED for key in graph.keys])
    assumes = (
        f"{change.after.name} instead of {before.name} by their data sheets: kernels {least:.2f} to {most:.2f} times as fast; "
        "copies, collectives and launches as they are"
    )
    return np.where(scaled, 1 / least, 1.0), np.where(scaled, 1 / most, 1.0), assumes


def gains(before: Gpu, after: Gpu) -> tuple[float, float]:
    """How many times as fast kernels get, at least and at most. float32 is that of the ordinary units: PyTorch multiplies matrices
    with TF32 only if it is asked to.

    >>> gains(load("a100"), load("a100"))
    (1.0, 1.0)
    """
    ratios = (
        after.bandwidth / before.bandwidth,
        after.peak("float16") / before.peak("float16"),
        after.peak("float32", matrix=False) / before.peak("float32", matrix=False),
    )
    return min(ratios), max(ratios)


def recorded_gpu(run: Run) -> Gpu:
    """The GPU that a trace names, if its data sheet is known."""
    names = set()
    for process in run.trace.processes:
        names |= {str(one.get("name") or "") for one in process.log.devices}
    known = [load(name) for name in shipped(GPUS)]
    found = [gpu for gpu in known if any(_is(gpu, name) for name in names)]
    if len(found) == 1:
        return found[0]
    said = ", ".join(sorted(filter(None, names)))
    what = f"was recorded on {said}" if said else "does not say which GPU it used"
    raise CutawayError(
        f"This run {what}; say what that is, as in gpu=v100:h100, with one of {', '.join(shipped(GPUS))} or a TOML file."
    )


def _is(gpu: Gpu, name: str) -> bool:
    return gpu.name.lower() in name.lower()
