"""JAX loops: what a jitted function does is known only to its author (annotate it); each step is an iteration."""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.imports import when_imported


def install() -> None:
    when_imported("jax", _expect_steps)


def _expect_steps(module: ModuleType) -> None:
    _recorder.expect_steps()
