"""The work of kernels as hardware counters measured it, in place of what the shapes of their operators let expect."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cutaway.analysis.counters import counters
from cutaway.analysis.run import Run
from cutaway.trace.reader import Trace
from cutaway_balance.operators import Cost

if TYPE_CHECKING:
    from cutaway_balance.stack import Kernel


@dataclass
class Work:
    """What the dispatches of one kernel did together; NaN: the counters do not tell."""

    count: int = 0
    flops: float = 0.0
    bytes: float = 0.0
    tensor: float = 0.0

    def cost(self, modelled: Cost | None) -> Cost | None:
        """The work of one dispatch; what was not counted is taken from the model, and without one nothing is known."""
        flops = self.flops / self.count
        moved = self.bytes / self.count
        if modelled is None:
            known = math.isfinite(flops) and math.isfinite(moved)
            if known:
                return Cost(flops, moved, "float32", self.tensor > 0)
            return None
        return modelled._replace(
            flops=flops if math.isfinite(flops) else modelled.flops,
            bytes=moved if math.isfinite(moved) else modelled.bytes,
        )


def measured_work(trace: Trace) -> dict[str, Work]:
    """By the name of the kernel: the mean over all operations that launched it."""
    found: defaultdict[str, Work] = defaultdict(Work)
    for row in counters(Run(trace)):
        if math.isnan(row["flops"]) and math.isnan(row["bytes"]):
            continue
        work = found[row["kernel"]]
        work.count += row["count"]
        work.flops += row["count"] * row["flops"]
        work.bytes += row["count"] * row["bytes"]
        work.tensor += row["tensor"] if row["tensor"] > 0 else 0.0
    return dict(found)


def with_measured_work(
    kernels: Iterable[Kernel], work: dict[str, Work]
) -> Iterator[Kernel]:
    """The same kernels; those that were counted do what was counted."""
    for kernel in kernels:
        own = work.get(kernel.name)
        if own is None:
            yield kernel
        else:
            yield replace(kernel, cost=own.cost(kernel.cost), counted=True)
