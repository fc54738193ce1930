"""Keras 3 and 2: calls of layers are marked as networks, an optimizer's `apply` is part of an update, the methods that
train or predict as a whole are named. What runs while a graph is being traced is no work of its own."""

from __future__ import annotations

import sys
from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, cover, cover_family
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

_OPTIMIZERS = {
    "keras.src.optimizers.base_optimizer": ("BaseOptimizer", "apply"),
    "keras.src.optimizers.optimizer": ("Optimizer", "apply_gradients"),
    "tf_keras.src.optimizers.optimizer": ("Optimizer", "apply_gradients"),
    "tensorflow.python.training.optimizer": ("Optimizer", "apply_gradients"),
}
_LAYERS = ("keras.src.layers.layer", "keras.src.engine.base_layer", "tf_keras.src.engine.base_layer")
_TRAINERS = {
    "keras.src.backend.tensorflow.trainer": "TensorFlowTrainer",
    "keras.src.engine.training": "Model",
    "tf_keras.src.engine.training": "Model",
}


def install() -> None:
    for name in _LAYERS:
        when_imported(name, _layers)
    for name in _OPTIMIZERS:
        when_imported(name, _optimizers)
    for name in _TRAINERS:
        when_imported(name, _trainers)


def _is_traced() -> bool:
    """Whether TensorFlow builds a graph at this moment instead of computing."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is not None and not context.executing_eagerly()


def _records_gradients() -> bool:
    native = sys.modules.get("tensorflow.python._pywrap_tfe")
    return _is_traced() or (native is not None and not native.TFE_Py_TapeSetIsEmpty())


def _layers(module: Any) -> None:
    cover(
        module.Layer,
        "__call__",
        None,
        mark="network",
        gradients=_records_gradients,
        hidden_in=HIDDEN_IN["inference"],
    )


def _optimizers(module: ModuleType) -> None:
    name, method = _OPTIMIZERS[module.__name__]
    base = getattr(module, name)
    cover_family(base, (method,), "backpropagation", update=True, unless=_is_traced)
    cover(base, "__init__", None, on_exit=_optimizer_made)


def _optimizer_made(optimizer: Any, nothing: Any) -> None:
    """This process trains: its iterations end with updates."""
    _recorder.expect_updates()


def _trainers(module: ModuleType) -> None:
    cls = getattr(module, _TRAINERS[module.__name__])
    for name in ("fit", "train_on_batch"):
        cover(cls, name, "backpropagation", update=True)
    for name in ("predict", "predict_on_batch"):
        cover(cls, name, "inference")
    for name in ("evaluate", "test_on_batch"):
        cover(cls, name, "evaluation")
    for name in ("save", "save_weights"):
        cover(cls, name, "checkpoint")
