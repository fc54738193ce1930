"""Operations, iterations and steps without code changes, one file a framework.

A file is loaded when its library is about to be imported. Its `RULES` say which methods are which operation; what a rule cannot
say is in its `MODULES`: functions that get a module of the library once it has been imported. Libraries may bring such a file
themselves (`brought.py`). Inside an operation of the user's own nothing automatic is opened: the user's name wins; steps and
iterations are counted all the same.
"""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks import brought, cover
from cutaway.record.imports import Any, when_imported, when_sought_load
from cutaway.record.options import Options

CLOUDPICKLES = (
    "cloudpickle.cloudpickle",
    "ray.cloudpickle.cloudpickle",
    "joblib.externals.cloudpickle.cloudpickle",
)
# Our files, and the packages that need them.
FILES = {
    "gymnasium": "gymnasium gym",
    "envpool": "envpool",
    "torch": "torch",
    "jax": "jax",
    "keras": "keras tf_keras tensorflow",
    "sb3": "stable_baselines3 sb3_contrib cleanrl_utils",
    "tianshou": "tianshou",
    "torchrl": "torchrl",
    "skrl": "skrl",
    "d3rlpy": "d3rlpy",
    "rllib": "ray",
    "huggingface": "transformers trl",
    "openspiel": "open_spiel",
    "verl": "verl",
    "tf_functions": "tensorflow",
    "tf_agents": "tf_agents",
    "sample_factory": "sample_factory",
    "pufferlib": "pufferlib",
}


def install(options: Options) -> None:
    """Wait for the frameworks we know, or cover them at once if they are imported already."""
    for name in CLOUDPICKLES:
        when_imported(name, _unpickled_classes)
    when_sought_load(__name__, FILES, _use)
    brought.install()


def _use(file: Any) -> None:
    for rule in getattr(file, "RULES", ()):
        rule.install()
    for name, apply in getattr(file, "MODULES", {}).items():
        when_imported(name, apply)


def _unpickled_classes(module: ModuleType) -> None:
    cover.cover(module, "_class_setstate", None, on_exit=cover.revisit)


def remove() -> None:
    _recorder.uncover_calls()
    cover.restore()
