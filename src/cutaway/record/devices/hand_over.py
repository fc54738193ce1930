"""Another profiler that needs what our collector holds: it gets the place from its start to its stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any


class HandOver:
    """Stands around two functions of a profiler's modules, named here; `undo` puts them back as they were."""

    def __init__(self, start: str, stop: str) -> None:
        self.start, self.stop = start, stop
        self._restore: list[tuple[ModuleType, Any, Any]] = []

    def watch(
        self, modules: Iterable[ModuleType], make_way: Callable[[], None], take_back: Callable[[], None]
    ) -> None:
        """All modules have their own names for the functions of the first."""
        modules = list(modules)
        start, stop = getattr(modules[0], self.start), getattr(modules[0], self.stop)

        def start_alone(*arguments: Any, **options: Any) -> Any:
            make_way()
            return start(*arguments, **options)

        def stop_and_return(*arguments: Any, **options: Any) -> Any:
            try:
                return stop(*arguments, **options)
            finally:
                take_back()

        for module in modules:
            self._put(module, start_alone, stop_and_return)
            self._restore.append((module, start, stop))

    def undo(self) -> None:
        while self._restore:
            self._put(*self._restore.pop())

    def _put(self, module: ModuleType, start: Any, stop: Any) -> None:
        setattr(module, self.start, start)
        setattr(module, self.stop, stop)
