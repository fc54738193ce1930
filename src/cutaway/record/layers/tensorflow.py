"""Layer backend: TensorFlow's eager and graph execution. `tf.py_function` is Python again while it runs.

A call is named by its operation or `tf.function`, and its site is the line that asked TensorFlow or Keras for it.
"""

from __future__ import annotations

import os
from functools import partial

from cutaway import _recorder
from cutaway.record import layers
from cutaway.record.imports import Any

# Their lines say nothing to a reader: the line that called them does.
_PACKAGES = "tensorflow keras tf_keras tensorflow_probability tree optree wrapt".split()
_NAME_AT = {
    "TFE_Py_Execute": 2,
    "TFE_Py_ExecuteCancelable": 2,
    "TFE_Py_FastPathExecute": 1,
}
_UNNAMED = "TFE_Py_TapeGradient TFE_Py_ForwardAccumulatorJVP TFE_Py_EncodeArg".split()
_SESSION = "TF_SessionRun_wrapper TF_SessionRunCallable TF_SessionPRun_wrapper TF_SessionMakeCallable".split()
_TENSOR = "_numpy_internal _copy_to_device".split()


def _apply_eager(module: Any) -> None:
    packages = module.__file__.partition("/tensorflow/python/")[0]
    standard = os.path.dirname(os.__file__)
    ours = os.path.dirname(os.path.dirname(__file__))  # hooks
    inner = [os.path.join(packages, name, "") for name in _PACKAGES]
    for path in (*inner, f"{standard}/contextlib.py", f"{standard}/functools.py", ours):
        _recorder.library(path)
    for name, position in _NAME_AT.items():
        if hasattr(module, name):
            native = layers.native_part(getattr(module, name))
            _recorder.patch_operator(
                native, f"tensorflow.{name}", "backend", position, _shown
            )
    _patch(module, _UNNAMED, "tensorflow")


def _patch(owner: Any, names: list[str], shown: str) -> None:
    for name in filter(partial(hasattr, owner), names):
        native = layers.native_part(getattr(owner, name))
        _recorder.patch_operator(native, f"{shown}.{name}", "backend")


def _shown(operator: str | bytes) -> str:
    """`MatMul`, or what a traced function is called: `__inference_train_113`, with a number that grows."""
    if isinstance(operator, bytes):
        name = operator.decode()
    else:
        name = operator
    head, _, traced = name.partition(
        "_inference_" if name.startswith("__inference_") else "_forward_"
    )
    if head != "_":
        return f"tensorflow.{name}"
    traced = traced.rpartition("_")[0]
    if traced.startswith("__backward_"):
        return f"tensorflow.gradient({traced[len('__backward_') :].rpartition('_')[0]})"
    return f"tensorflow.function({traced})"


MODULES: dict[str, Any] = {
    "tensorflow.python._pywrap_tfe": _apply_eager,
    "tensorflow.python.client._pywrap_tf_session": lambda module: _patch(
        module, _SESSION, "tensorflow"
    ),
    "tensorflow.python.ops.script_ops": lambda module: _recorder.patch_callback(
        module.FuncRegistry.__call__
    ),
    "tensorflow.python.framework.ops": lambda ops: _patch(
        ops.EagerTensor, _TENSOR, "tensorflow.EagerTensor"
    ),
}
