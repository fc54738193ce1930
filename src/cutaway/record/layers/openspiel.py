"""Layer simulator: OpenSpiel (pybind11): games, states, bots and algorithms written in C++."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.layers import walk


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, "pyspiel", "simulator")


MODULES = {"pyspiel": _apply}
