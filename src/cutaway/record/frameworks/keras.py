"""Keras 3 and 2: calls of layers are marked as networks, an optimizer's `apply` is part of an update, the methods that
train or predict as a whole are named. What runs while a graph is being traced is no work of its own."""

from __future__ import annotations

import sys

from cutaway.record.frameworks.cover import HIDDEN_IN, Rule, trains
from cutaway.record.imports import Any

LAYERS = "keras.src.layers.layer keras.src.engine.base_layer tf_keras.src.engine.base_layer"
OPTIMIZERS = (
    ("keras.src.optimizers.base_optimizer", "BaseOptimizer", "apply"),
    ("keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
    ("tf_keras.src.optimizers.optimizer", "Optimizer", "apply_gradients"),
    ("tensorflow.python.training.optimizer", "Optimizer", "apply_gradients"),
)
TRAINERS = (
    ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"),
    ("keras.src.engine.training tf_keras.src.engine.training", "Model"),
)
WHOLE = (
    ("predict predict_on_batch", "inference"),
    ("evaluate test_on_batch", "evaluation"),
    ("save save_weights", "checkpoint"),
)


def _is_traced() -> bool:
    """Whether TensorFlow builds a graph at this moment instead of computing."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is not None and not context.executing_eagerly()


def _records_gradients() -> bool:
    native = sys.modules.get("tensorflow.python._pywrap_tfe")
    return _is_traced() or (native is not None and not native.TFE_Py_TapeSetIsEmpty())


_CALLS: dict[str, Any] = {
    "mark": "network",
    "gradients": _records_gradients,
    "hidden_in": HIDDEN_IN["inference"],
}
_APPLIES: dict[str, Any] = {"update": True, "unless": _is_traced}
RULES = (
    Rule(LAYERS, "Layer", "__call__", **_CALLS),
    *(Rule(module, f"{cls}+", name, "backpropagation", **_APPLIES) for module, cls, name in OPTIMIZERS),
    *(Rule(module, cls, "__init__", on_exit=trains) for module, cls, _ in OPTIMIZERS),
    *(Rule(*trainer, "fit train_on_batch", "backpropagation", update=True) for trainer in TRAINERS),
    *(Rule(*trainer, *methods) for trainer in TRAINERS for methods in WHOLE),
)
