"""Layer simulator: Box2D (SWIG): b2World_Step and everything else the extension defines."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.layers import walk


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, "Box2D", "simulator")


def _apply_proxies(module: ModuleType) -> None:
    """SWIG gives the methods of its Python classes native functions of their own."""
    for name, cls in list(vars(module).items()):
        if isinstance(cls, type) and cls.__module__ == module.__name__:
            walk.patch_methods(cls, f"Box2D.{name}", "simulator")


MODULES = {"Box2D._Box2D": _apply, "Box2D.Box2D": _apply_proxies}
