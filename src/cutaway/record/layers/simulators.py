"""Layer simulator: a table of extension modules, and the names their functions get. What needs more than that follows below it."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record import layers
from cutaway.record.imports import Any

_ENVPOOL = (
    "atari box2d classic_control gym minigrid mujoco procgen toy_text vizdoom".split()
)
_ENVPOOL_MUJOCO = "mujoco_gym mujoco_dmc robotics myosuite playground".split()
_ENVPOOL_MODULES = [
    *(f"envpool.{family}.{family}_envpool" for family in _ENVPOOL),
    *(f"envpool.mujoco.{suite}_envpool" for suite in _ENVPOOL_MUJOCO),
]
EXTENSIONS = {
    "ale_py._ale_py": "ale",
    "Box2D._Box2D": "Box2D",
    **{
        f"mujoco.{part}": "mujoco"
        for part in "_functions _structs _rollout _render _specs".split()
    },
    "pybullet": "pybullet",
    "pyspiel": "pyspiel",
    **{name: name for name in _ENVPOOL_MODULES},
}

# MuJoCo asks these while it is imported: no world is simulated.
_QUESTIONS = frozenset(("mj_version", "mj_versionString"))


def _apply(prefix: str, module: ModuleType) -> None:
    layers.patch_module(module, prefix, "simulator", leave=_QUESTIONS)


def _box2d_proxies(module: ModuleType) -> None:
    """SWIG gives the methods of its Python classes native functions of their own."""
    for name, cls in list(vars(module).items()):
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            layers.patch_methods(cls, f"Box2D.{name}", "simulator")


def _envpool_families(module: ModuleType) -> None:
    """Families that are not in the table, but came in with the package."""
    for name, family in list(sys.modules.items()):
        if (
            name.startswith("envpool.")
            and name.endswith("_envpool")
            and layers.is_extension(family)
        ):
            _apply(name, family)


def _mujoco_callbacks(module: ModuleType) -> None:
    """What MuJoCo calls back (mjcb_control …) is Python again."""
    for name, function in vars(module).items():
        if name.startswith("set_mjcb_"):
            _recorder.patch_watched(
                function, f"mujoco.{name}", "simulator", layers.callbacks_given
            )


MODULES: dict[str, Any] = {
    **{name: partial(_apply, prefix) for name, prefix in EXTENSIONS.items()},
    "Box2D.Box2D": _box2d_proxies,
    "envpool": _envpool_families,
    "mujoco._callbacks": _mujoco_callbacks,
}
