"""What the native reader needs from the log of a process: layers of calls, and what the rule that names
time (native/sweep/namer.h) must know of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.log import Call, Log
from cutaway.vocabulary import THREAD_LAYERS, Hint

_NAMED_BY_RULE = (
    "simulation",
    "inference",
    "backpropagation",
    "replay",
    "evaluation",
    "training program",
    "compile",
    "sync",
    "search",
    "rollout program",
)
"""In the order of the fields of `NamingFacts` in native/sweep/naming.h."""

_STORES = ("__setitem__", "index_put_", "index_copy_", "scatter_", "copy_")
_NETWORK = (
    "linear",
    "conv1d",
    "conv2d",
    "conv3d",
    "embedding",
    "scaled_dot_product_attention",
    "lstm",
    "gru",
)
_AWAITS = (
    "block_until_ready",
    "batched_block_until_ready",
    "__buffer__",
    "__array__",
    "_value",
    "_single_device_array_to_np_array_did_copy",
)
_PREPARES = ("load", "from_", "__init__", "__new__")
"""How functions of a simulator begin that build a world and do not step it."""
_BY_FUNCTION = {
    **dict.fromkeys(_STORES, Hint.STORES),
    **dict.fromkeys(_NETWORK, Hint.NETWORK),
    **dict.fromkeys(_AWAITS, Hint.AWAITS),
}
_BY_LAYER = {"simulator": Hint.PHYSICS, "wait": Hint.BLOCKS}
_BY_CONTENT = {
    "network": Hint.NETWORK,
    "update": Hint.UPDATE,
    "step": Hint.PHYSICS,
    "program": Hint.PROGRAM,
    "rollout": Hint.PHYSICS | Hint.PROGRAM,
}
"""Of a compiled function, by what it holds (log "compiled")."""
_LAYER_IDS = {name: number for number, name in enumerate(THREAD_LAYERS)}


@dataclass(frozen=True)
class Facts:
    """`layers` and `hints` by call id; ids of the names the rule gives, 0 for those that the log
    does not have; `untrained` by number of an environment: 1 if it is not trained on."""

    layers: NDArray[np.uint8]
    hints: NDArray[np.uint8]
    names: tuple[int, ...]
    untrained: NDArray[np.uint8]


def facts_of(log: Log) -> Facts:
    """Everything the log holds so far.

    >>> log = Log()
    >>> log.calls[2] = Call("backend", "torch.nn.functional.linear")
    >>> facts_of(log).hints.tolist()
    [0, 0, 2]
    """
    size = 1 + max(log.calls, default=-1)
    layers = np.zeros(size, np.uint8)
    hints = np.zeros(size, np.uint8)
    compiled = _compiled_hints(log)
    for id, call in log.calls.items():
        layers[id] = _LAYER_IDS.get(call.layer, 0)
        hints[id] = _hint(call, compiled)
    ids = {text: id for id, text in log.names.items()}
    names = tuple(ids.get(name, 0) for name in _NAMED_BY_RULE)
    return Facts(layers, hints, names, _not_trained_on(log.environments))


def _hint(call: Call, compiled: dict[str, int]) -> int:
    name = call.fn.rpartition(".")[2]
    if call.layer == "simulator" and name.startswith(_PREPARES):
        return 0
    if call.layer in _BY_LAYER:
        return _BY_LAYER[call.layer]
    if call.fn in compiled:
        return compiled[call.fn]
    return _BY_FUNCTION.get(name, 0)


def _compiled_hints(log: Log) -> dict[str, int]:
    """By function; if several have one name, the most specific one counts."""
    found: dict[str, int] = {}
    for function, content in log.compiled:
        hint = Hint.LAUNCHES | _BY_CONTENT.get(content, 0)
        found[function] = max(found.get(function, 0), hint)
    return found


def _not_trained_on(intervals: dict[int, int]) -> NDArray[np.uint8]:
    """An environment that was stepped in less than half as many stretches between updates as
    another is not trained on."""
    most = max(intervals.values(), default=0)
    out = np.zeros(1 + max(intervals, default=0), np.uint8)
    for number, stepped in intervals.items():
        out[number] = 2 * stepped < most and most > 3
    return out
