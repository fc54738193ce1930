"""Layer simulator: EnvPool, whose families are one pybind11 extension module each."""

from __future__ import annotations

import sys
from types import ModuleType

from cutaway.record.layers import walk

_FAMILIES = "atari box2d classic_control gym minigrid mujoco procgen toy_text vizdoom".split()
_OF_MUJOCO = ("mujoco_gym", "mujoco_dmc", "robotics", "myosuite", "playground")


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, module.__name__, "simulator")


def _apply_package(module: ModuleType) -> None:
    """Families that are not known here, but were imported together with the package."""
    for name, family in list(sys.modules.items()):
        if name.startswith("envpool.") and name.endswith("_envpool") and walk.is_extension(family):
            _apply(family)


MODULES = {f"envpool.{family}.{family}_envpool": _apply for family in _FAMILIES}
MODULES |= {f"envpool.mujoco.{suite}_envpool": _apply for suite in _OF_MUJOCO}
MODULES["envpool"] = _apply_package
