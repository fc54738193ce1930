"""Layer backend: PyTorch. Functions, tensor methods, operators, subscripts, computing getters, autograd, JIT, ops.

Trivial queries (`size`, `dim`, `is_grad_enabled` …) are left out by a list that was measured, `torch_trivial.txt`; the
rule and the measurement are in benchmarks/trivial_calls.py.
"""

from __future__ import annotations

import _imp
import os
import sys
import weakref
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, ModuleType

from cutaway import _recorder
from cutaway.record import layers
from cutaway.record.imports import Any

_SUBMODULES = ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested")
_CLASSES = (
    "_ImperativeEngine Generator ScriptFunction ScriptMethod ScriptModule StorageBase GraphExecutorState "
    "_CudaEventBase _CudaStreamBase _CUDAGraph"
).split()
_OLD_TENSORS = "FloatTensor DoubleTensor HalfTensor LongTensor IntTensor ByteTensor BoolTensor".split()
_TENSOR_SLOTS = ("__new__", "__getitem__", "__setitem__")
_hooks: list[weakref.ref[Any]] = []


def callables(torch: Any) -> Iterator[tuple[str, Any]]:
    """Every native callable and getter of torch that could be recorded, with the name it is shown by."""
    native = torch._C
    for name in dir(native._VariableFunctions):
        if not name.startswith("__"):
            yield f"torch.{name}", getattr(native._VariableFunctions, name)
    for submodule in filter(partial(hasattr, native), _SUBMODULES):
        for name, value in vars(getattr(native, submodule)).items():
            yield f"torch.{submodule}.{name}", value
    for name, value in vars(native).items():
        yield f"torch._C.{name}", value
    for name, value in vars(native.TensorBase).items():
        yield f"Tensor.{name}", layers.native_part(value)
    for kind in filter(partial(hasattr, native), _CLASSES):
        for name, value in layers.methods(getattr(native, kind)):
            yield f"torch.{kind}.{name}", value


def trivial() -> frozenset[str]:
    """Names of what is not worth recording."""
    with open(
        os.path.join(os.path.dirname(__file__), "torch_trivial.txt"), encoding="utf-8"
    ) as file:
        return frozenset(
            line
            for line in file.read().split("\n")
            if line and not line.startswith("#")
        )


def _apply(torch: Any) -> None:
    skip = trivial()
    native = torch._C
    _patch_special(torch)
    for name, value in callables(torch):
        known = layers.is_native(value) or type(value).__name__ == "getset_descriptor"
        if (
            known
            and name not in skip
            and not name.rpartition(".")[2].startswith("__init")
        ):
            _recorder.patch(value, name, "backend")
    _recorder.patch_type(native.TensorBase, "Tensor", "backend", _TENSOR_SLOTS)
    for name in _OLD_TENSORS:
        _recorder.patch_type(
            getattr(torch, name), f"torch.{name}", "backend", ("__new__",)
        )
    for name in ("ScriptFunction", "ScriptMethod"):
        _recorder.patch_type(
            getattr(native, name), f"torch.{name}", "backend", ("__call__",)
        )
    _patch_operators(torch)
    if isinstance(
        distributed := getattr(native, "_distributed_c10d", None), ModuleType
    ):
        _patch_distributed(distributed)
    _recorder.patch_watched(_imp.exec_dynamic, "import", "python", _extension_loaded)


def _extension_loaded(arguments: tuple[Any, ...], _: object) -> None:
    """Kernels that torch.compile has written are extension modules it loads from its cache."""
    module = arguments[0]
    cache = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or "torchinductor"
    if cache in str(getattr(module, "__file__", "")):
        layers.patch_module(module, "torch.compile", "backend")


def _patch_special(torch: Any) -> None:
    """What calls back into Python, or makes new callables; before the plain walk, which then passes them over."""
    function = torch._C._FunctionBase
    _recorder.patch_apply(
        vars(function)["apply"], "torch.autograd.Function.apply", "backend"
    )
    for name in ("apply", "apply_jvp"):
        back = vars(torch.autograd.function.BackwardCFunction).get(name)
        if back is not None:
            _recorder.patch_callback(back)
    for name in ("register_hook", "register_prehook"):
        register = vars(function)[name]
        shown = f"torch.autograd.Node.{name}"
        _recorder.patch_watched(register, shown, "backend", layers.callbacks_given)
    tensor = vars(torch._C.TensorBase)
    for name in ("_backward_hooks", "_post_accumulate_grad_hooks"):
        _recorder.patch_watched(
            tensor[name], f"Tensor.{name}", "backend", _hooks_possible
        )
    backward = torch._C._ImperativeEngine.run_backward
    shown = "torch.autograd.Engine.run_backward"
    _recorder.patch_awaited(backward, shown, "backend", _before_backward)
    for name in ("_jit_get_operation", "_get_operation_overload"):
        _recorder.patch_watched(
            getattr(torch._C, name), f"torch._C.{name}", "backend", _operator_made
        )


def _hooks_possible(arguments: tuple[Any, ...], _: object) -> None:
    """A tensor got its dictionary of hooks; what will be in it is known when they are about to be called."""
    for hooks in arguments:
        if hooks is not None:
            _hooks[:] = [known for known in _hooks if known() is not None]
            _hooks.append(weakref.ref(hooks))


def _before_backward(*_: object) -> None:
    for known in _hooks:
        for function in list((known() or {}).values()):
            _recorder.patch_callback(function)


def _operator_made(arguments: tuple[Any, ...], made: Any) -> None:
    name = "torch.ops." + ".".join(str(a) for a in arguments if a).replace("::", ".")
    for value in made if isinstance(made, tuple) else ():
        if layers.is_native(value):
            _recorder.patch_one_of_many(value, name, "backend")


def _patch_operators(torch: Any) -> None:
    """The operators of `torch.ops` that torch itself made while it was imported."""
    kinds = torch._ops
    namespaces = [
        n for n in vars(torch.ops).values() if isinstance(n, kinds._OpNamespace)
    ]
    held = []
    for namespace in namespaces:
        held += vars(namespace).values()
    for packet in [one for one in held if isinstance(one, kinds.OpOverloadPacket)]:
        name = "torch.ops." + packet._qualified_op_name.replace("::", ".")
        found = {name: packet._op}
        for overload in vars(packet).values():
            if isinstance(overload, kinds.OpOverload):
                found[f"{name}.{overload._overloadname}"] = overload._op
        for shown, native in found.items():
            if layers.is_native(native):
                _recorder.patch_one_of_many(native, shown, "backend")


def _patch_distributed(distributed: ModuleType) -> None:
    """Collectives are the backend's; waiting for one to finish is a wait."""
    for name in ("ProcessGroup", "Backend", "Store", "Reducer", "Work"):
        cls = getattr(distributed, name, None)
        for method, value in layers.methods(cls):
            shown = f"torch.distributed.{name}.{method}"
            if name == "Work" and method in ("wait", "synchronize"):
                _recorder.patch_wait(value, shown, "")
            elif name != "Work" and not method.startswith("__"):
                _recorder.patch(value, shown, "backend")


def _not_compiled(dynamo: Any) -> None:
    """torch.compile looks into whatever runs below it, compiles it and warns of what it does not know: not our functions."""
    ours = [
        (name, module)
        for name, module in sys.modules.items()
        if name.startswith("cutaway.record.")
    ]
    found = []
    for name, module in ours:
        found += [(name, value) for value in vars(module).values()]
    codes = [
        f.__code__
        for name, f in found
        if isinstance(f, FunctionType) and f.__module__ == name
    ]
    for code in codes:  # grows by the functions inside functions
        dynamo.skip_code(code)
        codes += [inner for inner in code.co_consts if isinstance(inner, CodeType)]


MODULES = {"torch": _apply, "torch._dynamo.eval_frame": _not_compiled}
