"""What an annotated program gets where nothing can be recorded (sub-interpreters, free-threaded Python): it runs on."""

from __future__ import annotations

from types import TracebackType
from typing import Any


class _Nothing:
    """Stands for an operation or a phase: enters, leaves and decorates without doing anything."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def __call__(self, function: Any) -> Any:
        return function


operation = _Nothing
phase = _Nothing


def iteration() -> None:
    """Would begin an iteration."""


def step(steps: int = 1) -> None:
    """Would count environment steps."""
