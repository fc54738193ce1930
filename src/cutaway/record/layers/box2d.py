"""Layer simulator: Box2D (SWIG): b2World_Step and everything else the extension defines."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.layers import walk


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, "Box2D", "simulator")


MODULES = {"Box2D._Box2D": _apply}
