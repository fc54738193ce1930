"""Operations, iterations and steps without code changes, one file a framework.

Each file waits for the import of its library and covers methods of its classes (`cover.py`). Inside an operation of
the user's own nothing automatic is opened: the user's name wins; steps and iterations are counted all the same.
"""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks import cover, gymnasium, jax, sb3, torch
from cutaway.record.imports import when_imported

CLOUDPICKLES = (
    "cloudpickle.cloudpickle",
    "ray.cloudpickle.cloudpickle",
    "joblib.externals.cloudpickle.cloudpickle",
)


def install() -> None:
    """Wait for the frameworks we know, or cover them at once if they are imported already."""
    for name in CLOUDPICKLES:
        when_imported(name, _unpickled_classes)
    gymnasium.install()
    torch.install()
    jax.install()
    sb3.install()


def _unpickled_classes(module: ModuleType) -> None:
    cover.cover(module, "_class_setstate", None, on_exit=cover.revisit)


def remove() -> None:
    """Put every covered method back."""
    _recorder.uncover_calls()
    cover.restore()
