"""Values over time: how many sequences a language model decodes, how many samples wait, how old the weights are.

A value holds until the next one. Only changes are kept, and they are written together, about ten times a second and when the
recording ends. Standard library only: the traced process loads this.
"""

from __future__ import annotations

import os
import time

from cutaway import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cutaway.record.imports import Any

PAUSE_NS = 100_000_000  # between two writes
_MOST_NAME = 200

_last: dict[str, float] = {}
_waiting: list[tuple[str, int, float]] = []
_made: list[
    tuple[int, int]
] = []  # when tokens were made that are not written yet, and how many
_written_ns = 0
_folder: str | None = None


def gauge(name: str, value: float) -> None:
    """Record a value over time, such as `cutaway.gauge("queue", len(samples))`: it holds until the next one of that name.

    `cutaway show` understands the names of `GAUGES` in `cutaway/vocabulary.py`; `run.gauges()` returns all. Nothing happens when
    nothing records.

    >>> import cutaway
    >>> cutaway.gauge("queue", 3)
    """
    if _begins():
        _put(name, float(value), time.monotonic_ns())
        _write_now_and_then()


def gauge_since(name: str, points: list[tuple[int, float]]) -> None:
    """Values whose times (CLOCK_MONOTONIC) are past, in order."""
    if not _begins():
        return
    for at, value in points:
        _put(name, value, at)
    _write_now_and_then()


def _put(name: str, value: float, at: int) -> None:
    if _last.get(name) == value or value - value != 0:  # neither infinite nor no number
        return
    _last[name] = value
    _waiting.append((name[:_MOST_NAME], at, value))


def count_tokens(made: int) -> None:
    """A language model generated so many tokens."""
    if not made or not _begins():
        return
    _made.append((time.monotonic_ns(), made))
    _write_now_and_then()


def last(name: str) -> float:
    """What a gauge says now; 0 if it was never set here."""
    return _last.get(name, 0.0)


def _begins() -> bool:
    """Whether something records; drops what an earlier recording of this process left."""
    global _folder
    if _recorder.refused or not _recorder.active():
        return False
    folder = _recorder.folder()
    if folder != _folder:
        _last.clear()
        _waiting.clear()
        _made.clear()
        _folder = folder
    return True


def _write_now_and_then() -> None:
    if time.monotonic_ns() - _written_ns >= PAUSE_NS:
        write()


def write() -> None:
    """Write pending values into the log."""
    global _written_ns
    _written_ns = time.monotonic_ns()
    _log_tokens()
    points: dict[str, list[list[Any]]] = {}
    for name, at, value in _taken():
        points.setdefault(name, []).append([at, value])
    for name, values in points.items():
        _log(name, values)


def _log_tokens() -> None:
    """Tokens with the time of each call, so that they can be counted by iteration."""
    global _made
    import json

    made = _made
    _made = []
    if not made:
        return
    first = made[0][0]
    entry: dict[str, Any] = {"n": sum(count for _, count in made), "t": first}
    if len(made) > 1:
        entry["at"] = [[at - first, count] for at, count in made]
    _recorder.log("tokens", json.dumps(entry))


def _taken() -> list[tuple[str, int, float]]:
    """Take the pending values. What another thread appends meanwhile stays for the next time."""
    global _waiting
    taken = _waiting
    _waiting = []
    return taken


def _log(name: str, values: list[list[Any]]) -> None:
    import json

    first = values[0][0]
    points = [[at - first, value] for at, value in values]
    _recorder.log("gauge", json.dumps({"name": name, "t": first, "at": points}))


def remove() -> None:
    """The recording ends: free what it kept in memory."""
    if _recorder.active():
        write()
    _last.clear()
    _waiting.clear()
    _made.clear()


def _forget() -> None:
    """A forked child begins without what its parent has not written."""
    _made.clear()
    _last.clear()
    _waiting.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
