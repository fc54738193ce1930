"""Operations, iterations and steps without code changes: a file for each backend, and files of tables for the libraries.

A file is loaded when one of its libraries is about to be imported. Its `RULES` say which methods are which operation; what a rule
cannot say is in its `MODULES`: functions that get a module of the library once it has been imported. Libraries may bring such
rules themselves (`brought.py`). Inside an operation of the user's own nothing automatic is opened: the user's name wins; steps
and iterations are counted all the same.
"""

from __future__ import annotations

from cutaway import _recorder
from cutaway.record.frameworks import brought, cover
from cutaway.record.imports import Any, when_imported, when_sought_load
from cutaway.record.options import Options

# Our files, and the packages that need them.
FILES = {
    "environments": "gymnasium gym envpool",
    "torch": "torch",
    "jax": "jax",
    "tensorflow": "tensorflow keras tf_keras",
    "rl_libraries": "stable_baselines3 sb3_contrib cleanrl_utils tianshou torchrl skrl d3rlpy ray open_spiel "
    "sample_factory pufferlib",
    "tf_agents": "tf_agents",
    "language_models": "transformers trl verl",
}
CLOUDPICKLES = "cloudpickle.cloudpickle ray.cloudpickle.cloudpickle joblib.externals.cloudpickle.cloudpickle"


def install(options: Options) -> None:
    """Wait for the frameworks we know, or cover them at once if they are imported already."""
    cover.Rule(CLOUDPICKLES, "", "_class_setstate", on_exit=cover.revisit).install()
    when_sought_load(__name__, FILES, _use)
    brought.install()


def _use(file: Any) -> None:
    for rule in file.RULES:
        rule.install()
    for name, apply in getattr(file, "MODULES", {}).items():
        when_imported(name, apply)


def remove() -> None:
    """Put back what was covered."""
    _recorder.uncover_calls()
    cover.restore()
