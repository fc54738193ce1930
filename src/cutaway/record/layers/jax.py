"""Layer backend: JAX. Jitted functions, PjRt executables, arrays, clients and devices of jaxlib.

A jitted function carries its own pointer to native code, so each one is exchanged when `jaxlib` makes it. Functions
that run when a jitted function is called with new shapes, and host callbacks, are Python again.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator

from cutaway import _recorder
from cutaway.record import layers
from cutaway.record.imports import Any

_CLASSES = "ArrayImpl Client Device LoadedExecutable Executable ResultHandler Token ShardedToken".split()
# Getters that only return a stored value: measured by benchmarks/trivial_calls_jax.py, which fails if this list is not right.
_TRIVIAL = frozenset(
    "ArrayImpl.__init__ ArrayImpl._fully_replicated_shard ArrayImpl.is_deleted ArrayImpl.is_ready ArrayImpl.platform "
    "Client._get_all_devices Client.device_count Client.devices Client.host_id Client.local_device_count "
    "Client.local_devices Client.process_index Client.task_id Device.__repr__ Device.__str__ "
    "Device.addressable_memories Device.default_memory LoadedExecutable.get_output_memory_kinds "
    "LoadedExecutable.get_output_shardings LoadedExecutable.get_parameter_shardings LoadedExecutable.local_devices "
    "LoadedExecutable.size_of_generated_code_in_bytes".split()
)
_FUNCTIONS = (
    "batched_block_until_ready batched_copy_array_to_devices_with_sharding batched_device_put "
    "buffer_to_dlpack_managed_tensor cuda_array_interface_to_buffer dlpack_managed_tensor_to_buffer reorder_shards"
).split()


def methods(native: Any) -> Iterator[tuple[str, Any]]:
    """Every method of jaxlib's classes that could be recorded, as `Class.method`."""
    for kind in _CLASSES:
        cls = getattr(native, kind, None)
        for name, value in layers.methods(cls):
            if not name.startswith(("__del", "__get", "__new", "__dict")):
                yield f"{kind}.{name}", value


def _apply(native: Any) -> None:
    _recorder.patch_watched(native.pjit, "jax.pjit", "backend", _jitted)
    for name in ("compile", "compile_and_load"):
        _recorder.patch_watched(
            vars(native.Client)[name], f"jax.Client.{name}", "backend", _compiled
        )
    if hasattr(native, "pmap_lib"):  # before JAX 0.9, which maps with jit
        _recorder.patch_watched(native.pmap_lib.pmap, "jax.pmap", "backend", _pmapped)
    for name in _FUNCTIONS:
        if hasattr(native, name):
            _recorder.patch(getattr(native, name), f"jax.{name}", "backend")
    for shown, value in methods(native):
        if shown not in _TRIVIAL:
            _recorder.patch(value, f"jax.{shown}", "backend")
    # np.asarray(array) reads the buffer, and waits until it has been computed.
    _recorder.patch_type(native.ArrayImpl, "jax.ArrayImpl", "backend", ("__buffer__",))
    for made in [o for o in gc.get_objects() if type(o) is native.PjitFunction]:
        _patch(made, getattr(made, "__wrapped__", None))


def shown(made: Any) -> str:
    """What a compiled function is called in a recording."""
    own = getattr(made, "__name__", "")  # what is made of a partial function has none
    if type(made).__name__ == "PmapFunction":
        return f"jax.pmap({own})"
    return _mapped(getattr(made, "__wrapped__", None)) or (
        f"jax.jit({own})" if own else "jax.jit"
    )


def _mapped(function: Any) -> str:
    """What a function that `jax.pmap` jits is called, by the user's function inside it; empty for others."""
    inner: Any = getattr(function, "__wrapped__", None)
    users: Any = getattr(inner, "__self__", None)
    if type(users).__name__ == "WrappedFun":  # JAX 0.8
        return f"jax.pmap({users.__name__})"
    if getattr(inner, "__module__", "") != "jax._src.pmap" or not inner.__closure__:
        return ""
    cells = dict(zip(inner.__code__.co_freevars, inner.__closure__, strict=True))
    if "fun" in cells:
        users = cells["fun"].cell_contents
    else:
        users = None
    return f"jax.pmap({getattr(users, '__name__', '')})"


def _patch(made: Any, function: Any) -> None:
    _recorder.patch_one_of_many(made, _mapped(function) or "jax.jit", "backend")


def _jitted(arguments: tuple[Any, ...], made: Any) -> None:
    _patch(made, arguments[1])  # it does not know its function yet
    for value in arguments[
        2:
    ]:  # behind name and function, what native code calls for new shapes
        _recorder.patch_callback(value)


def _pmapped(arguments: tuple[Any, ...], made: Any) -> None:
    name = getattr(arguments[0], "__name__", "")
    _recorder.patch_one_of_many(made, f"jax.pmap({name})", "backend")
    _recorder.patch_callback(arguments[1])  # for new shapes


def _compiled(arguments: tuple[Any, ...], _: object) -> None:
    for value in arguments:
        if isinstance(value, (list, tuple)):
            layers.callbacks_given(tuple(value), None)


MODULES: dict[str, Any] = {"jaxlib._jax": _apply}
