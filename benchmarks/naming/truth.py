"""An expert's annotation of a program. It does nothing unless the benchmark asks for it, by NAMING_TRUTH:

    operations   blocks are Cutaway's operations; the benchmark switches automatic detection off
    phases       blocks are phases, which lie beside the automatic operations and do not disturb them

Phases belong to one thread and nest, as operations do, so both say the same. Evaluation and checkpoints are whole:
blocks inside them say nothing.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import cutaway

MODE = os.environ.get("NAMING_TRUTH", "")
WHOLE = ("evaluation", "checkpoint")
_inside = threading.local()


def operation(name: str) -> AbstractContextManager[Any]:
    """The lines in this block are `name`."""
    if not MODE or getattr(_inside, "whole", False):
        return nullcontext()
    block: Any = (
        cutaway.operation(name) if MODE == "operations" else cutaway.phase(name)
    )
    return _whole(block) if name in WHOLE else block  # type: ignore[no-any-return]


@contextmanager
def _whole(block: Any) -> Iterator[None]:
    with block:
        _inside.whole = True
        try:
            yield
        finally:
            _inside.whole = False


def iteration() -> None:
    """One pass of the training loop begins. Automatic detection has to find this by itself."""
    if MODE == "operations":
        cutaway.iteration()


def annotate(owner: Any, method: str, name: str) -> None:
    """The calls of a library's method are `name`; for what a program cannot put a block around."""
    function = getattr(owner, method)

    @functools.wraps(function)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with operation(name):
            return function(*args, **kwargs)

    if MODE:
        setattr(owner, method, annotated)


def iterations(owner: Any, method: str) -> None:
    """Each call of a library's method begins an iteration."""
    function = getattr(owner, method)

    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        iteration()
        return function(*args, **kwargs)

    if MODE:
        setattr(owner, method, counted)


def each(
    items: Callable[..., Iterator[Any]], name: str
) -> Callable[..., Iterator[Any]]:
    """A generator whose work for each item is `name`."""

    @functools.wraps(items)
    def annotated(*args: Any, **kwargs: Any) -> Iterator[Any]:
        iterator = items(*args, **kwargs)
        while True:
            with operation(name):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    return annotated if MODE else items
