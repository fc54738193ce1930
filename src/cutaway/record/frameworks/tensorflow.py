"""TensorFlow and Keras: what a call of a `tf.function` or a session is for, from what it was made of; tracing it is `compile`.

A library's file may name functions by adding to `NAMERS`. What nobody names is the update if a gradient was taken while
it was traced, and a network if it multiplies matrices. A run of a session is judged in the same way. Of Keras 3 and 2, calls of
layers are marked as networks, an optimizer's `apply` is part of an update, the methods that train or predict as a whole are named.
What runs while a graph is being traced is no work of its own.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable

from cutaway import _recorder
from cutaway.record.frameworks.hooks import HIDDEN_IN, Rule, span, trains
from cutaway.record.imports import Any

# Given the Python function, each says which `caller` calls it; None if it does not know.
NAMERS: list[Callable[[Any], Any]] = []


def caller(operation: str | None, **options: Any) -> Any:
    """What the calls of some functions go through, each as a function without arguments."""
    return span(_call, operation, **options)


def _call(call: Callable[[], Any]) -> Any:
    return call()


_update = caller("backpropagation", update=True)
_network = caller(None, mark="network", hidden_in=HIDDEN_IN["inference"])


class _About:
    """What is known of one tf.function."""

    def __init__(self, function: Any) -> None:
        python = getattr(function, "_python_function", None)
        self.caller = next(
            (found for namer in NAMERS if (found := namer(python)) is not None), None
        )
        self.begun = (
            False  # it was found to be the update in the middle of its first call
        )


class _Thread(threading.local):
    """Functions that this thread is calling, the innermost last. They are traced by the thread that calls them."""

    def __init__(self) -> None:
        self.called: list[_About] = []


_thread = _Thread()


def _named(call: Callable[..., Any], function: Any, *args: Any, **kwargs: Any) -> Any:
    about = function.__dict__.get("_cutaway")
    if about is None:
        about = function.__dict__["_cutaway"] = _About(function)
    _thread.called.append(about)
    try:
        if about.caller is None:
            return call(function, *args, **kwargs)
        return about.caller(functools.partial(call, function, *args, **kwargs))
    finally:
        _thread.called.pop()
        if about.begun:
            about.begun = False
            _recorder.end_operation("backpropagation")


def _traced(function: Any, graph: Any) -> None:
    """Now the graph runs; if it takes gradients, the rest of this first call is the update already."""
    if not _thread.called:
        return
    outermost = _thread.called[0]
    if outermost.caller is None and _is_network(
        operation.type for operation in graph.get_operations()
    ):
        outermost.caller = _network
    if outermost.caller is _update and not outermost.begun:
        outermost.begun = True
        _recorder.begin_operation("backpropagation")


def _noticed(gradient: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    for about in _thread.called:
        if about.caller in (None, _network):
            about.caller = _update
    return gradient(*args, **kwargs)


def _run(
    run: Callable[..., Any],
    session: Any,
    handle: Any,
    targets: Any,
    fetches: Any,
    *args: Any,
) -> Any:
    known = session.__dict__.setdefault("_cutaway", {})
    asked = (*targets, *fetches)
    key = tuple(map(id, asked))
    if key not in known:
        purpose = _purpose([getattr(one, "op", one) for one in asked])
        known[key] = purpose, asked  # held: an id stays theirs
    call = functools.partial(run, session, handle, targets, fetches, *args)
    caller = known[key][0]
    return call() if caller is None else caller(call)


def _purpose(asked: list[Any]) -> Any:
    """The update, a network, or neither, by the operations that have to be computed."""
    waiting, seen, kinds = asked, set(asked), set()
    while waiting:
        operation = waiting.pop()
        kinds.add(operation.type)
        before = {
            *operation.control_inputs,
            *(tensor.op for tensor in operation.inputs),
        } - seen
        seen |= before
        waiting.extend(before)
    if any(
        kind.startswith(("Apply", "ResourceApply", "SparseApply")) for kind in kinds
    ):
        return _update
    return _network if _is_network(kinds) else None


def _is_network(kinds: Iterable[str]) -> bool:
    return any("MatMul" in kind or "Conv" in kind for kind in kinds)


def _is_traced() -> bool:
    """Whether TensorFlow builds a graph at this moment instead of computing."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is not None and not context.executing_eagerly()


def _records_gradients() -> bool:
    native = sys.modules.get("tensorflow.python._pywrap_tfe")
    return _is_traced() or (native is not None and not native.TFE_Py_TapeSetIsEmpty())


FUNCTION = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
GRAPH = "tensorflow.python.framework.func_graph"
LAYERS = (
    "keras.src.layers.layer keras.src.engine.base_layer tf_keras.src.engine.base_layer"
)
CALLS: dict[str, Any] = {
    "mark": "network",
    "gradients": _records_gradients,
    "hidden_in": HIDDEN_IN["inference"],
}
RULES = [
    Rule(FUNCTION, "Function", "__call__", around=_named),
    Rule(GRAPH, "", compile="func_graph_from_py_func", on_exit=_traced),
    Rule(
        "tensorflow.python.eager.backprop",
        "GradientTape",
        backpropagation="gradient",
        around=_noticed,
    ),
    Rule("tensorflow.python.client.session", "BaseSession", "_do_run", around=_run),
    Rule(LAYERS, "Layer", "__call__", **CALLS),
]
for module, optimizer, apply in (
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply"),
    ("keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
    ("tf_keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
    ("tensorflow.python.training.optimizer", "Optimizer", "apply_gradients"),
):
    RULES += [
        Rule(
            module,
            f"{optimizer}+",
            backpropagation=apply,
            update=True,
            unless=_is_traced,
        ),
        Rule(module, optimizer, "__init__", on_exit=trains),
    ]
for trainer in (
    ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"),
    ("keras.src.engine.training tf_keras.src.engine.training", "Model"),
):
    RULES += [
        Rule(*trainer, backpropagation="fit train_on_batch", update=True),
        Rule(
            *trainer,
            inference="predict predict_on_batch",
            evaluation="evaluate test_on_batch",
        ),
        Rule(*trainer, checkpoint="save save_weights"),
    ]
