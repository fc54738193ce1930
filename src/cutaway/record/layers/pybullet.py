"""Layer simulator: PyBullet: stepSimulation and the other functions of the extension."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.layers import walk


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, "pybullet", "simulator")


MODULES = {"pybullet": _apply}
