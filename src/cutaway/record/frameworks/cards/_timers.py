"""Frameworks that time their own steps: while one of their timers runs, an operation is open.

What runs in other processes is seen there; around it, a timer of the driver mostly waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from cutaway import _recorder
from cutaway.record.frameworks.hooks import Rule, begin_iteration
from cutaway.record.imports import Any

_running = threading.local()


def table(**timers: str) -> dict[str, str]:
    """From operations with the names of their timers, the operation of each timer."""
    found: dict[str, str] = {}
    for operation, names in timers.items():
        found.update(dict.fromkeys(names.split(), operation))
    return found


def rules(
    where: tuple[str, str],
    begins: str,
    ends: str,
    name: Callable[..., str],
    timers: Mapping[str, str],
    iteration: str = "",
) -> list[Rule]:
    """For timers that begin and end in two methods. `name` gets the arguments of both; the timers `iteration` begin one."""
    begins_iteration = iteration.split()

    def begin(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        which = name(*args, **kwargs)
        if which in begins_iteration:
            begin_iteration()
        operation = timers.get(which)
        if operation:
            opened = _recorder.operation(operation)
            opened.__enter__()
            _stack().append((id(args[0]), which, opened))
        return method(*args, **kwargs)

    def end(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        finally:
            _close(id(args[0]), name(*args, **kwargs))

    return [
        Rule(*where, begins, around=begin),
        Rule(*where, ends, around=end),
    ]


def _stack() -> list[tuple[int, str, Any]]:
    """The timers that run on this thread."""
    if not hasattr(_running, "stack"):
        _running.stack = []
    stack: list[tuple[int, str, Any]] = _running.stack
    return stack


def _close(timer: int, which: str) -> None:
    """A timer ends, the innermost of that name. Those of other tasks on this thread, which may have the same name, run on."""
    stack = _stack()
    for position in range(len(stack) - 1, -1, -1):
        if stack[position][:2] == (timer, which):
            _, _, opened = stack.pop(position)
            opened.__exit__(None, None, None)
            return
