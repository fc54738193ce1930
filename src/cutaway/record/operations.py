"""Operations written in Python: around code that runs piecewise, and where nothing can be recorded.

A coroutine that waits for something is not at work: its operation is open only while it really runs. In a sub-interpreter or
a free-threaded Python, an annotated program still runs; the names then do nothing.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import AbstractContextManager
from typing import Any

Block = AbstractContextManager[Any]


def piecewise(operation: Block, function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a coroutine function, a generator function or an asynchronous generator function."""

    @functools.wraps(function)
    async def coroutine(*args: Any, **kwargs: Any) -> Any:
        return await _drive(operation, function(*args, **kwargs).__await__())

    @functools.wraps(function)
    def generator(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        return (yield from _drive(operation, function(*args, **kwargs)))

    @functools.wraps(function)
    async def async_generator(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        inner = function(*args, **kwargs)
        step = inner.__anext__()
        while True:
            try:
                item = await _drive(operation, step.__await__())
            except StopAsyncIteration:
                return
            try:
                step = inner.asend((yield item))
            except GeneratorExit:
                await inner.aclose()
                raise
            except BaseException as error:
                step = inner.athrow(error)

    if inspect.iscoroutinefunction(function):
        return coroutine
    if inspect.isasyncgenfunction(function):
        return async_generator
    return generator


@types.coroutine  # so it can be awaited, too
def _drive(
    operation: Block, inner: Generator[Any, Any, Any]
) -> Generator[Any, Any, Any]:
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


class _Nothing:
    """Stands for an operation or a phase: enters, leaves and decorates without doing anything."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        return function


operation = phase = _Nothing


def iteration() -> None: ...


def step(steps: int = 1) -> None: ...
