"""Layer simulator: EnvPool, whose families are one pybind11 extension module each."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.layers import walk

_FAMILIES = "atari box2d classic_control gym minigrid mujoco procgen toy_text vizdoom".split()


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, module.__name__, "simulator")


MODULES = {f"envpool.{family}.{family}_envpool": _apply for family in _FAMILIES}
MODULES |= {f"envpool.mujoco.mujoco_{suite}_envpool": _apply for suite in ("gym", "dmc")}
