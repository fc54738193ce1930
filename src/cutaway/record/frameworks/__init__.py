"""Operations, iterations and steps without code changes, one file a framework.

A file is loaded when its library is about to be imported; it waits for modules of the library and covers methods of
its classes (`cover.py`). Libraries may bring such a file themselves (`brought.py`). Inside an operation of the user's own
nothing automatic is opened: the user's name wins; steps and iterations are counted all the same.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks import brought, cover
from cutaway.record.imports import when_imported, when_sought

CLOUDPICKLES = (
    "cloudpickle.cloudpickle",
    "ray.cloudpickle.cloudpickle",
    "joblib.externals.cloudpickle.cloudpickle",
)
# Our files, and the packages that need them.
FILES = {
    "gymnasium": ("gymnasium", "gym"),
    "envpool": ("envpool",),
    "torch": ("torch",),
    "distributed": ("torch",),
    "jax": ("jax",),
    "keras": ("keras", "tf_keras", "tensorflow"),
    "sb3": ("stable_baselines3", "sb3_contrib", "cleanrl_utils"),
    "tianshou": ("tianshou",),
    "torchrl": ("torchrl",),
    "skrl": ("skrl",),
    "d3rlpy": ("d3rlpy",),
    "rllib": ("ray",),
    "huggingface": ("transformers", "trl"),
    "openspiel": ("open_spiel",),
    "verl": ("verl",),
    "tf_functions": ("tensorflow",),
    "tf_agents": ("tf_agents",),
    "sample_factory": ("sample_factory",),
    "pufferlib": ("pufferlib",),
}

_loaded: set[str] = set()


def install() -> None:
    """Wait for the frameworks we know, or cover them at once if they are imported already."""
    for name in CLOUDPICKLES:
        when_imported(name, _unpickled_classes)
    for file, packages in FILES.items():
        for package in packages:
            when_sought(package, lambda file=file: _load(file))  # type: ignore[misc]
    brought.install()


def _load(file: str) -> None:
    if file not in _loaded:
        _loaded.add(file)
        importlib.import_module(f"cutaway.record.frameworks.{file}").install()


def _unpickled_classes(module: ModuleType) -> None:
    cover.cover(module, "_class_setstate", None, on_exit=cover.revisit)


def remove() -> None:
    """Put every covered method back."""
    _loaded.clear()
    _recorder.uncover_calls()
    cover.restore()
