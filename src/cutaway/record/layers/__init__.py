"""Which native calls belong to which layer: one file a library and a table of simulators, applied when a module is imported.

The pointers are exchanged inside the existing objects by `cutaway._recorder` (see docs/layers.md); nothing here
replaces an attribute, so no reference a program holds, early or late, goes by unseen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record.imports import Any, when_imported, when_sought_load
from cutaway.record.layers import simulators, waits, walk
from cutaway.record.options import Options
from cutaway.vocabulary import THREAD_LAYERS

# Our files, and the packages that need them; `waits` and `simulators` are always there.
FILES = {
    "torch": "torch",
    "jax": "jaxlib",
    "tensorflow": "tensorflow",
    "numeric": "numpy scipy cv2",
    "ray": "ray",
}
_done: set[tuple[str, str]] = set()


def install(options: Options | None = None) -> None:
    """Intercept every library known here, now or as soon as it is imported, and the user's own simulators."""
    own = options.simulators if options else ()

    def use(library: Any) -> None:
        for name, apply in library.MODULES.items():
            if not any(name == mine or name.startswith(mine + ".") for mine in own):  # the user knows better
                when_imported(name, partial(_once, name, library.__name__, apply))

    use(waits)
    use(simulators)
    when_sought_load(__name__, FILES, use)
    for name in own:
        add(name, "simulator")


def add(module: str, layer: str) -> None:
    """Put the native callables of a module, or of a package's extension modules, into a layer."""
    if layer not in THREAD_LAYERS[1:]:
        known = ", ".join(THREAD_LAYERS[1:])
        raise ValueError(f"there is no layer {layer!r} for native code; use one of {known}")
    when_imported(module, partial(_once, module, layer, partial(_patch_package, layer)))


def remove() -> None:
    """Put every exchanged pointer back. Recording again in this process exchanges them again."""
    _recorder.restore()


def _once(name: str, owner: str, apply: Callable[[ModuleType], object], module: ModuleType) -> None:
    if (name, owner) not in _done:
        _done.add((name, owner))
        apply(module)


def _patch_package(layer: str, module: ModuleType) -> None:
    name = module.__name__
    natives = [m for n, m in list(sys.modules.items()) if n == name or n.startswith(name + ".")]
    found = sum(walk.patch_module(m, m.__name__, layer) for m in natives if walk.is_extension(m))
    if found == 0:
        _recorder.note(f"{name} has no native functions; its time stays in layer python")
