"""TensorFlow's `tf.function`: what a call is for, from the function it was made of; tracing it is `compile`.

A library's file may name functions by adding to `NAMERS`. What nobody names is the update if a gradient was taken while
it was traced.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, cover
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

# Given the Python function, each says which `span` stands for calls of it; None if it does not know.
NAMERS: list[Callable[[Any], Any]] = []


def install() -> None:
    when_imported("tensorflow.python.eager.polymorphic_function.polymorphic_function", _functions)
    when_imported("tensorflow.python.framework.func_graph", _graphs)
    when_imported("tensorflow.python.eager.backprop", _gradients)


def span(operation: str | None, **options: Any) -> Any:
    """What the calls of some functions go through."""
    hidden_in = HIDDEN_IN[operation or "simulation"]
    return _recorder.Span(_call, operation, hidden_in=hidden_in, **options)


def _call(call: Callable[[], Any]) -> Any:
    return call()


_update = span("backpropagation", update=True)


class _About:
    """What is known of one tf.function."""

    def __init__(self, function: Any) -> None:
        python = getattr(function, "_python_function", None)
        self.span = next((found for namer in NAMERS if (found := namer(python)) is not None), None)


class _Thread(threading.local):
    """Functions that this thread is calling, the innermost last. They are traced by the thread that calls them."""

    def __init__(self) -> None:
        self.called: list[_About] = []


_thread = _Thread()


def left_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """AutoGraph compiles the Python functions it meets into graphs; those with this attribute it only calls."""
    function.autograph_info__ = {}  # type: ignore[attr-defined]
    return function


def _functions(module: Any) -> None:
    cover(module.Function, "__call__", None, around=_named)


def _named(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(function: Any, *args: Any, **kwargs: Any) -> Any:
        about = function.__dict__.get("_cutaway")
        if about is None:
            about = function.__dict__["_cutaway"] = _About(function)
        _thread.called.append(about)
        try:
            if about.span is None:
                return call(function, *args, **kwargs)
            return about.span(functools.partial(call, function, *args, **kwargs))
        finally:
            _thread.called.pop()

    return left_alone(called)


def _graphs(module: Any) -> None:
    cover(module, "func_graph_from_py_func", "compile")


def _gradients(module: Any) -> None:
    cover(module.GradientTape, "gradient", "backpropagation", around=_noticed)


def _noticed(gradient: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(gradient)
    def taken(*args: Any, **kwargs: Any) -> Any:
        for about in _thread.called:
            about.span = about.span or _update
        return gradient(*args, **kwargs)

    return left_alone(taken)
