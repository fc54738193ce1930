"""What the rule that names unannotated time has to know of a process (native/sweep/namer.h; docs/naming.md)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.format import LAYERS
from cutaway.trace.log import Call, Log

NAMES = ("simulation", "inference", "backpropagation", "replay", "evaluation")
PROGRAM = "training program"
"""A compiled function that simulates, acts and updates: nobody can look into it from Python."""

REASONS = (
    "you say so",
    "a framework says so",
    "leads to the next step",
    "stores the step",
    "leads to an update",
    "within an update",
    "after an update",
    "a network without gradients",
    "another environment than the training, or a function that evaluates",
    "a compiled function with a gradient inside",
)
"""Why an operation has its name; the position is `Why` of native/trace/format.h."""

STORES, NETWORK, UPDATE, PHYSICS, BLOCKS, WHOLE_PROGRAM, AWAITS = 1, 2, 4, 8, 16, 32, 64
"""`CallHint` of native/sweep/namer.h."""

_COMPILED = {"network": NETWORK, "update": UPDATE, "step": PHYSICS, "program": WHOLE_PROGRAM}
_AWAITING = ("block_until_ready", "batched_block_until_ready", "__buffer__", "__array__", "_value")
_STORING = ("__setitem__", "index_put_", "index_copy_", "scatter_", "copy_")
_NETWORKS = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "embedding",
    "scaled_dot_product_attention",
    "lstm",
    "gru",
)


class Naming(NamedTuple):
    """Ids of names (0: not in this process), hints by call id, and which environments are not trained on."""

    names: list[int]
    hints: NDArray[np.uint8]
    environments: NDArray[np.uint8]


def naming(log: Log) -> Naming:
    """Everything the rule has to know of a process is in its log."""
    ids = {text: id for id, text in log.names.items()}
    compiled: dict[str, int] = {}
    for entry in log.others:
        if entry["k"] == "compiled":  # of several functions with one name the one that says most counts
            name = str(entry.get("function"))
            compiled[name] = max(compiled.get(name, 0), _COMPILED.get(str(entry.get("holds")), 0))
    hints = np.zeros(max(log.calls, default=0) + 1, np.uint8)
    for id, call in log.calls.items():
        hints[id] = _hint(call, compiled)
    return Naming([ids.get(name, 0) for name in (*NAMES, PROGRAM)], hints, _environments(log))


def _hint(call: Call, compiled: dict[str, int]) -> int:
    if call.layer in ("simulator", "wait"):
        return PHYSICS if call.layer == LAYERS[1] else BLOCKS
    name = call.fn.rpartition(".")[2]
    if call.fn in compiled:
        return compiled[call.fn]
    hints = ((_STORING, STORES), (_NETWORKS, NETWORK), (_AWAITING, AWAITS))
    return next((hint for names, hint in hints if name in names), 0)


def _environments(log: Log) -> NDArray[np.uint8]:
    """One that was stepped in less than half as many stretches between updates as another is not trained on."""
    intervals: dict[int, int] = {}
    for entry in log.others:
        if entry["k"] == "environment":
            intervals[int(entry["id"])] = int(entry["intervals"])
    most = max(intervals.values(), default=0)
    out = np.zeros(max(intervals, default=0) + 1, np.uint8)
    for number, count in intervals.items():
        out[number] = 2 * count < most and most > 3
    return out
