"""Layer simulator: the Arcade Learning Environment: ALEInterface and the vectorised ALEVectorInterface (nanobind)."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.layers import walk


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, "ale", "simulator")


MODULES = {"ale_py._ale_py": _apply}
