"""Which native calls belong to which layer: one file a library and a table of simulators, applied when a module is imported.

The pointers are exchanged inside the existing objects by `cutaway._recorder` (see docs/layers.md); nothing here
replaces an attribute, so calls are recorded through every reference that the program holds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from importlib.machinery import EXTENSION_SUFFIXES
from types import BuiltinFunctionType, ModuleType

from cutaway import _recorder
from cutaway.record.imports import Any, when_imported, when_sought_load
from cutaway.record.options import Options
from cutaway.vocabulary import THREAD_LAYERS

# Our files, and the packages that need them; `waits` and `simulators` are always loaded.
FILES = {
    "torch": "torch",
    "jax": "jaxlib",
    "tensorflow": "tensorflow",
    "numeric": "numpy scipy cv2",
    "ray": "ray",
    "standard": "_pickle zlib binascii _bz2 _lzma _hashlib _json",
}
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

_done: set[tuple[str, str]] = set()


def install(options: Options | None = None) -> None:
    """Intercept every library known here, now or as soon as it is imported, and the user's own simulators."""
    from cutaway.record.layers import simulators, waits

    own = options.simulators if options else ()

    def use(library: Any) -> None:
        for name, apply in library.MODULES.items():
            if not any(
                name == mine or name.startswith(mine + ".") for mine in own
            ):  # the user knows better
                when_imported(name, partial(_once, name, library.__name__, apply))
        for name, apply in getattr(
            library, "COVERS", {}
        ).items():  # which the end of a recording takes back
            when_imported(name, apply)

    use(waits)
    use(simulators)
    when_sought_load(__name__, FILES, use)
    for name in own:
        add(name, "simulator")


def add(module: str, layer: str) -> None:
    """Put the native callables of a module, or of a package's extension modules, into a layer."""
    if layer not in THREAD_LAYERS[1:]:
        known = ", ".join(THREAD_LAYERS[1:])
        raise ValueError(
            f"there is no layer {layer!r} for native code; use one of {known}"
        )
    when_imported(module, partial(_once, module, layer, partial(_patch_package, layer)))


def remove() -> None:
    """Put every exchanged pointer back. Recording again in this process exchanges them again."""
    _recorder.restore()


def _once(
    name: str, owner: str, apply: Callable[[ModuleType], object], module: ModuleType
) -> None:
    if (name, owner) not in _done:
        _done.add((name, owner))
        apply(module)


def _patch_package(layer: str, module: ModuleType) -> None:
    name = module.__name__
    natives = [
        m for n, m in list(sys.modules.items()) if n == name or n.startswith(name + ".")
    ]
    found = sum(patch_module(m, m.__name__, layer) for m in natives if is_extension(m))
    if found == 0:
        _recorder.note(
            f"{name} has no native functions that are not recorded already; their layer stays. `cutaway run --simulator {name}` "
            f"puts a module of the standard library into layer simulator"
        )


def is_extension(module: ModuleType) -> bool:
    """Whether a module is compiled code (built in, or a shared library)."""
    file = getattr(module, "__file__", None)
    return not isinstance(file, str) or file.endswith(tuple(EXTENSION_SUFFIXES))


def patch_module(
    module: ModuleType, prefix: str, layer: str, leave: frozenset[str] = frozenset()
) -> int:
    """Record the functions, and the methods and operators of the types, that an extension module defines."""
    from enum import EnumMeta

    count = 0
    for name, value in list(vars(module).items()):
        if name in _PLUMBING or name in leave:
            continue
        if isinstance(value, type):
            if not isinstance(value, EnumMeta) and value.__module__ in (
                module.__name__,
                prefix,
            ):
                count += patch_methods(value, f"{prefix}.{name}", layer)
        elif is_native(value):
            count += _recorder.patch(native_part(value), f"{prefix}.{name}", layer)
    return count


def patch_methods(cls: type, prefix: str, layer: str) -> int:
    """Record the native methods and slots of a type. Properties are left out: they only read."""
    found = [(name, value) for name, value in methods(cls) if name not in _PLUMBING]
    count = sum(
        _recorder.patch(value, f"{prefix}.{name}", layer) for name, value in found
    )
    return count + _recorder.patch_type(cls, prefix, layer, _SLOTS)


def methods(cls: Any) -> Iterator[tuple[str, Any]]:
    """The native callables in a type's own dictionary, without wrappers; none if it is not a type."""
    for name, value in list(vars(cls).items()) if isinstance(cls, type) else ():
        if is_native(value):
            yield name, native_part(value)


def callbacks_given(functions: tuple[Any, ...], _: object) -> None:
    """Callbacks that a native function was given: inside them is Python again."""
    for function in functions:
        _recorder.patch_callback(function)


def native_part(value: Any) -> Any:
    """The native function inside a staticmethod, classmethod or instancemethod; else the value itself."""
    wrapped = type(value).__name__ in ("instancemethod", "staticmethod", "classmethod")
    if wrapped:
        return value.__func__
    return value


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
    return (
        has_vectorcall and kind.__module__ != "builtins" and not isinstance(value, type)
    )
