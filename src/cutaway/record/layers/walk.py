"""Walks what an extension module defines, and hands each native callable to the recorder."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinFunctionType, ModuleType

from cutaway import _recorder
from cutaway.record.imports import Any

# Bookkeeping of the object, not work of the library.
_PLUMBING = frozenset(
    "__class__ __class_getitem__ __copy__ __deepcopy__ __del__ __delattr__ __dir__ __doc__ __eq__ __format__ "
    "__getattr__ __getattribute__ __getnewargs__ __getstate__ __hash__ __index__ __init_subclass__ __int__ __members__ "
    "__module__ __ne__ __new__ __reduce__ __reduce_ex__ __repr__ __setattr__ __setstate__ __sizeof__ __str__ "
    "__subclasshook__ _pybind11_conduit_v1_".split()
)
_SLOTS = (
    "__call__ __init__ __getitem__ __setitem__ __next__ __add__ __sub__ __mul__ __truediv__ __matmul__ __iadd__ "
    "__isub__ __imul__ __itruediv__"
).split()


def is_extension(module: ModuleType) -> bool:
    """Whether a module is compiled code (built in, or a shared library)."""
    file = getattr(module, "__file__", None)
    return not isinstance(file, str) or file.endswith(tuple(EXTENSION_SUFFIXES))


def patch_module(module: ModuleType, prefix: str, layer: str) -> int:
    """Record the functions, and the methods and operators of the types, that an extension module defines."""
    from enum import EnumMeta

    count = 0
    for name, value in list(vars(module).items()):
        if name in _PLUMBING:
            continue
        if isinstance(value, type):
            if not isinstance(value, EnumMeta) and value.__module__ in (module.__name__, prefix):
                count += patch_methods(value, f"{prefix}.{name}", layer)
        elif is_native(value):
            count += _recorder.patch(native_part(value), f"{prefix}.{name}", layer)
    return count


def patch_methods(cls: type, prefix: str, layer: str) -> int:
    """Record the native methods and slots of a type. Properties are left out: they read, they do not work."""
    found = [(name, value) for name, value in methods(cls) if name not in _PLUMBING]
    count = sum(_recorder.patch(value, f"{prefix}.{name}", layer) for name, value in found)
    return count + _recorder.patch_type(cls, prefix, layer, _SLOTS)


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """The native callables in a type's own dictionary, freed of what is wrapped around them."""
    for name, value in list(vars(cls).items()):
        if is_native(value):
            yield name, native_part(value)


def callbacks_given(functions: tuple[Any, ...], _: object) -> None:
    """A native function was given these to call: they are Python again."""
    for function in functions:
        _recorder.patch_callback(function)


def native_part(value: Any) -> Any:
    """The native function inside a staticmethod, classmethod or instancemethod; else the value itself."""
    wrapped = type(value).__name__ in ("instancemethod", "staticmethod", "classmethod")
    return value.__func__ if wrapped else value


def is_native(value: Any) -> bool:
    """Whether the recorder can exchange the function pointer of this object."""
    value = native_part(value)
    kind = type(value)
    if isinstance(value, BuiltinFunctionType) or kind.__name__ in (
        "method_descriptor",
        "classmethod_descriptor",
    ):
        return True
    has_vectorcall = bool(kind.__flags__ & 1 << 11)
    return has_vectorcall and kind.__module__ != "builtins" and not isinstance(value, type)
