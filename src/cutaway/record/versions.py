"""Which version of which library a process uses: written to its log as each is imported."""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.imports import when_imported
from cutaway.record.options import Options

PACKAGES = (
    "torch jax jaxlib tensorflow flax optax numpy gymnasium gym stable_baselines3 sb3_contrib sbx ale_py mujoco Box2D "
    "envpool pyspiel ray"
).split()


def install(options: Options) -> None:
    """Wait for the libraries that decide what a run's figures mean."""
    for name in PACKAGES:
        when_imported(name, _tell)


def _tell(module: ModuleType) -> None:
    version = getattr(module, "__version__", "")
    word = "".join(c for c in str(version) if c.isalnum() or c in ".+-_")
    if word:
        _recorder.log("rename", f'{{"versions":{{"{module.__name__}":"{word}"}}}}')
