"""Sentences about evidence, and pieces of them."""

from __future__ import annotations

from .evidence import Evidence
from .model import NONE


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.583), percent(0.004), percent(0.0001)
    ('58 %', '0.4 %', '0 %')
    """
    return f"{share * 100:.1f} %" if 0.0005 <= share < 0.0095 else f"{share * 100:.0f} %"


def top(e: Evidence) -> tuple[str, float]:
    """The named operation with the most time, and its share."""
    named = {name: share for name, share in e.operation.items() if name}
    return max(named.items(), key=lambda kv: kv[1]) if named else ("", 0.0)


def main_part(e: Evidence, layer: str) -> str:
    """The operation with the most time in a layer."""
    parts = {operation: share for (operation, kind), share in e.cell.items() if kind == layer}
    operation = max(parts, key=lambda k: parts[k]) if parts else ""
    return operation or NONE


def worker_text(e: Evidence) -> str:
    """Whom the main process waits for."""
    b = e.blocked
    assert b is not None
    one = "another process" if b.role == "process" else f"the {b.role} process"
    who = f"{b.count} {b.role} processes" if b.count > 1 else one
    return f"{percent(b.share)} of {e.per} waits for {who}, busy with {b.busy_with or 'other work'}."


def operation_text(e: Evidence, name: str) -> str:
    """An operation's share and its main layer."""
    share = e.operation[name]
    layers = {layer: s for (operation, layer), s in e.cell.items() if operation == name}
    layer = max(layers, key=lambda k: layers[k])
    return f"{percent(share)} of {e.per} is {name}, {percent(layers[layer] / share)} of that {where(layer)}{gpu_text(e)}."


def where(layer: str) -> str:
    """A layer in words."""
    named = {
        "wait": "waiting",
        "python": "in Python",
        "native": "in native libraries",
        "simulator": "in the simulator",
        "backend": "in the ML backend",
    }
    return named.get(layer, f"in the {layer.replace('_', ' ')}")


def gpu_text(e: Evidence) -> str:
    """How busy the device is, for the end of a sentence."""
    if e.device_busy is None:
        return ""
    smi = f" (nvidia-smi would say {percent(e.nvidia_smi)})" if e.nvidia_smi is not None else ""
    return f"; the GPU is busy {percent(e.device_busy)} of the time{smi}"


def with_your_line(e: Evidence, operation: str, text: str) -> str:
    """An advice, and the user's line it is about."""
    line = e.lines.get(operation)
    return f"{text}; most of it is at your {line}" if line else text


def name_it(e: Evidence) -> str:
    """What to do about time without a name."""
    line = e.lines.get("")
    where = f", first at your {line}" if line else ""
    return f'name the parts of the loop with cutaway.operation("simulation") and so on{where}'


def main_operation(e: Evidence, layer: str) -> str:
    """The operation with the most time in a layer; empty for time outside any."""
    name = main_part(e, layer)
    return "" if name == NONE else name


def hot_line(e: Evidence, operation: str, what: str) -> str:
    """An advice that begins with the user's line."""
    line = e.lines.get(operation)
    return f"at your {line}: {what}" if line else what
