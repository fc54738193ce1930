"""What an annotated program gets where nothing can be recorded (sub-interpreters, free-threaded Python): it runs on."""

from __future__ import annotations

from typing import Any


class _Nothing:
    """Stands for an operation or a phase: enters, leaves and decorates without doing anything."""

    def __init__(self, name: str = "") -> None:
        self.name = name

    def __enter__(self) -> None: ...

    def __exit__(self, *error: object) -> None: ...

    def __call__(self, function: Any) -> Any:
        return function


operation = phase = _Nothing


def iteration() -> None: ...


def step(steps: int = 1) -> None: ...
