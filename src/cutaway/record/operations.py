"""Operations around code that runs piecewise: coroutines, generators, and the tasks of an event loop.

A coroutine that waits for something is not at work: its operation is open only while it really runs.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from types import ModuleType

from cutaway import _recorder

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from typing import Any

    Block = AbstractContextManager[Any]


def piecewise(operation: Block, function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a coroutine function, a generator function or an asynchronous generator function."""
    if inspect.iscoroutinefunction(function):
        return _coroutine(operation, function)
    if inspect.isasyncgenfunction(function):
        return _async_generator(operation, function)
    return _generator(operation, function)


def follow_tasks(events: ModuleType) -> None:
    """Keep the operations of asyncio's tasks apart; `events` is the module asyncio.events, just imported."""
    import asyncio.tasks

    run = events.Handle._run
    if not isinstance(run, _recorder.TaskRunner):
        events.Handle._run = _recorder.TaskRunner(run, asyncio.tasks.Task)


def leave_tasks(events: ModuleType) -> None:
    """Undo `follow_tasks`."""
    run = events.Handle._run
    if isinstance(run, _recorder.TaskRunner):
        events.Handle._run = run.__wrapped__


def follow_greenlets(greenlet: ModuleType) -> None:
    """Keep the operations of this thread's greenlets apart; `greenlet` is the module, just imported."""
    if greenlet.gettrace() is None:
        greenlet.settrace(_recorder.switched)
    else:
        _recorder.note(
            "Another tool traces greenlets, so Cutaway cannot: operations of different greenlets may be mixed up."
        )


def leave_greenlets(greenlet: ModuleType) -> None:
    """Undo `follow_greenlets`."""
    if greenlet.gettrace() is _recorder.switched:
        greenlet.settrace(None)


def _coroutine(operation: Block, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> Any:
        return await _Awaited(operation, function(*args, **kwargs))

    return run


def _generator(operation: Block, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _drive(operation, function(*args, **kwargs)))

    return run


def _async_generator(operation: Block, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        step = inner.__anext__()
        while True:
            try:
                item = await _Awaited(operation, step)
            except StopAsyncIteration:
                return
            try:
                step = inner.asend((yield item))
            except GeneratorExit:
                await inner.aclose()
                raise
            except BaseException as error:
                step = inner.athrow(error)

    return run


class _Awaited:
    """Awaits something, with an operation open while it runs."""

    def __init__(self, operation: Block, awaitable: Any) -> None:
        self.operation = operation
        self.awaitable = awaitable

    def __await__(self) -> Generator[Any, Any, Any]:
        return _drive(self.operation, self.awaitable.__await__())


def _drive(operation: Block, inner: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
    """`yield from inner`, with the operation open while it runs and closed while it waits."""
    step: Callable[[], Any] = functools.partial(inner.send, None)
    while True:
        try:
            with operation:
                item = step()
        except StopIteration as stop:
            return stop.value
        try:
            step = functools.partial(inner.send, (yield item))
        except GeneratorExit:
            inner.close()
            raise
        except BaseException as error:
            step = functools.partial(inner.throw, error)
