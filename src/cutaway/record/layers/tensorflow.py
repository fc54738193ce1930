"""Layer backend: TensorFlow's eager and graph execution. `tf.py_function` is Python again while it runs."""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.layers import walk

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

_SESSION = "TF_SessionRun_wrapper TF_SessionRunCallable TF_SessionPRun_wrapper TF_SessionMakeCallable".split()


def _apply_eager(module: ModuleType) -> None:
    for name, value in vars(module).items():
        if walk.is_native(value) and name.startswith("TFE_Py_") and _does_work(name):
            _recorder.patch(walk.native_part(value), f"tensorflow.{name}", "backend")


def _does_work(name: str) -> bool:
    return any(word in name for word in ("Execute", "TapeGradient", "ForwardAccumulatorJVP", "EncodeArg"))


def _apply_session(module: Any) -> None:
    for name in _SESSION:
        if hasattr(module, name):
            _recorder.patch(getattr(module, name), f"tensorflow.{name}", "backend")


def _apply_callbacks(module: Any) -> None:
    _recorder.patch_callback(module.FuncRegistry.__call__)


def _apply_tensor(module: Any) -> None:
    tensor = getattr(module, "EagerTensor", None)
    for name in ("_numpy_internal", "_copy_to_device", "_num_elements"):
        if tensor is not None and hasattr(tensor, name) and name != "_num_elements":
            _recorder.patch(getattr(tensor, name), f"tensorflow.EagerTensor.{name}", "backend")


MODULES: dict[str, Any] = {
    "tensorflow.python._pywrap_tfe": _apply_eager,
    "tensorflow.python.client._pywrap_tf_session": _apply_session,
    "tensorflow.python.ops.script_ops": _apply_callbacks,
    "tensorflow.python.framework.ops": _apply_tensor,
}
