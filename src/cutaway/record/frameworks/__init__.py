"""Operations, iterations and steps without code changes: a file for each backend, and files of tables for the libraries.

A file is loaded when one of its libraries is about to be imported. Its `RULES` say which methods are which operation; what a rule
cannot say is in its `MODULES`: functions that get a module of the library once it has been imported. Libraries may bring such
rules themselves (`brought.py`). What no rule names may still behave like an environment or a replay memory
(`behaviour.py`). Inside an operation of the user's own nothing automatic is opened: the user's name wins; steps
and iterations are counted all the same.
"""

from __future__ import annotations

import sys

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
METHODS = ("step", "advance", "sample")  # of environments and replay memories
CLOUDPICKLES = "cloudpickle.cloudpickle ray.cloudpickle.cloudpickle joblib.externals.cloudpickle.cloudpickle"


def install(options: Options) -> None:
    """Wait for the frameworks we know, or cover them at once if they are imported already."""
    cover.Rule(CLOUDPICKLES, "", "_class_setstate", on_exit=cover.revisit).install()
    when_sought_load(__name__, FILES, _use)
    brought.install()
    _watch(options.simulation)


def _use(file: Any) -> None:
    for rule in file.RULES:
        rule.install()
    for name, apply in getattr(file, "MODULES", {}).items():
        when_imported(name, apply)


def _watch(simulation: tuple[str, ...]) -> None:
    """Look at classes with these methods when they are made. The file that knows them is loaded for the first of them."""
    own = {name.rpartition(".")[2] for name in simulation}
    _recorder.watch_classes(tuple(map(sys.intern, own.union(METHODS))), _consider)
    if simulation or "numpy" in sys.modules:
        from cutaway.record.frameworks import behaviour

        behaviour.seek(simulation)
        behaviour.consider_all()


def _consider(cls: type) -> None:
    from cutaway.record.frameworks import behaviour

    behaviour.consider(cls)


def remove() -> None:
    """Put back what was covered."""
    _recorder.watch_classes((), None)
    if behaviour := sys.modules.get(f"{__name__}.behaviour"):
        behaviour.remove()
    _recorder.uncover_calls()
    cover.restore()
