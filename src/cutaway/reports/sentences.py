"""Sentences that several rules of the verdict share."""

from __future__ import annotations

from cutaway.vocabulary import LAYERS, NATIVE_CODE

from .evidence import Evidence
from .text import duration, percent, plural


def waits_for_workers(e: Evidence) -> str:
    """Whom the main process waits for."""
    b = e.blocked
    assert b is not None
    if b.role == "process":
        one, kind = "another process", "other"
    else:
        one, kind = f"the {b.role} process", b.role
    if b.count > 1:
        who = f"{b.count} {kind} processes"
    else:
        who = one
    does = f"busy with {b.busy_with or 'other work'}"
    if b.idle:
        if b.count > 1:
            each = "each of which mostly waits"
        else:
            each = "which mostly waits"
        does = f"{each}, too"
    return f"{percent(b.share)} of {e.per} waits for {who}, {does}."


def blocked_where(e: Evidence) -> str:
    """How much is blocked, in what, and for whom."""
    operation = e.largest_in("wait")
    if operation:
        parts = [f"in {operation}"]
    else:
        parts = []
    if e.waits_at and e.waits_for.startswith(NATIVE_CODE):
        parts.append(f"in {NATIVE_CODE} called at your {e.waits_at}")
    elif e.waits_for:
        if e.waits_at:
            at = f" at your {e.waits_at}"
        else:
            at = ""
        parts.append(f"for {e.waits_for}{at}")
    if parts:
        most = f", most of it {', '.join(parts)}"
    else:
        most = ""
    return f"{percent(e.layer['wait'])} of {e.per} is blocked{most}."


def counted(e: Evidence) -> str:
    """How many units were recorded, after the time that they took."""
    if e.unit == "run":
        return ""
    return f" and {plural(e.units, e.unit)}"


def inside_calls(e: Evidence) -> str:
    """How much of the wait for the GIL lies inside native calls, in brackets."""
    if e.gil_in_calls < e.gil / 10:
        return ""
    return f" ({percent(e.gil_in_calls)} at the end of native calls, which give it up and want it back)"


def share_of(e: Evidence, name: str) -> str:
    """An operation's share and its main layer."""
    share = e.operation[name]
    layers = {layer: s for (operation, layer), s in e.cell.items() if operation == name}
    layer = max(layers, key=lambda k: layers[k])
    return f"{percent(share)} of {e.per} is {name}, {percent(layers[layer] / share)} of that {_where(layer)}{how_busy_the_gpu_is(e)}."


def _where(layer: str) -> str:
    return LAYERS[layer].where or f"in a {LAYERS[layer].title}"


def how_busy_the_gpu_is(e: Evidence) -> str:
    """How busy the device is, for the end of a sentence."""
    if e.device_busy is None:
        return ""
    if e.nvidia_smi is not None:
        smi = f" (nvidia-smi would say {percent(e.nvidia_smi)})"
    else:
        smi = ""
    return f"; the GPU is busy {percent(e.device_busy)} of the time{smi}"


def what_comes_next(e: Evidence, operation: str, layer: str) -> str:
    """What comes next: the largest cell outside the operation and the layer that the verdict is about."""
    told_operations = ("", operation)
    told_layers = ("wait", layer)
    rest = {
        cell: share
        for cell, share in e.cell.items()
        if cell[0] not in told_operations and cell[1] not in told_layers
    }
    if not rest:
        return ""
    (operation, layer), share = max(rest.items(), key=lambda kv: kv[1])
    if share < 0.03:
        return ""
    line = e.lines.get(operation)
    if line:
        at = f", most at your {line}"
    else:
        at = ""
    return f"{duration(share * e.unit_ms * 1e6)} of {e.per} is {operation} {_where(layer)}{at}."
