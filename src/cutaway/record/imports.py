"""Being told when a module has been imported, without changing how it is imported.

A finder at the front of `sys.meta_path` looks up the few names somebody waits for; the module's own loader then
runs as ever, and the callbacks run when it is done. The module, its spec and its loader stay the ones Python made.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

Callback = Callable[[ModuleType], None]

_waiting: dict[str, list[Callback]] = {}


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback(module)` once `name` has been imported: now, if it is already, else right after its import."""
    module = sys.modules.get(name)
    if module is not None and not _being_imported(module):
        _call(callback, module)
        return
    _waiting.setdefault(name, []).append(callback)
    if not any(finder is _finder for finder in sys.meta_path):
        sys.meta_path.insert(0, _finder)


def forget() -> None:
    """Take the finder away and drop every callback that has not been called."""
    _waiting.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _being_imported(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _call(callback: Callback, module: ModuleType) -> None:
    try:
        callback(module)
    except Exception as error:  # a library changed under us: its training must not suffer
        from cutaway import _recorder

        _recorder.note(f"{module.__name__} is not fully recorded: {type(error).__name__}: {error}")


class _Finder:
    """Finds nothing itself: asks the other finders and asks the loader they give to report back."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in _waiting:
            return None
        spec = self._find(name, path, target)
        # Built-in and frozen modules have a class that all of them share as loader; nobody waits for those.
        if spec is not None and not isinstance(spec.loader, type) and hasattr(spec.loader, "exec_module"):
            self._report_back(name, spec.loader)
        return spec

    def _find(self, name: str, path: Any, target: Any) -> importlib.machinery.ModuleSpec | None:
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            spec = None if finder is self or find is None else find(name, path, target)
            if spec is not None:
                return spec  # type: ignore[no-any-return]
        return None

    def _report_back(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            vars(loader).pop("exec_module", None)
            execute(module)
            for callback in _waiting.pop(name, ()):
                _call(callback, module)

        loader.exec_module = exec_module


_finder = _Finder()
