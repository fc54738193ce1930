"""Calls back when a module has been imported, without changing how it is imported.

A finder at the front of `sys.meta_path` looks up the few names somebody waits for; the module's own loader then
runs as ever, and the callbacks run when it is done. The module, its spec and its loader stay the ones Python made.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import ModuleType

TYPE_CHECKING = False  # importing typing is felt at every start of a traced program; checkers know the name
if TYPE_CHECKING:
    from typing import Any as Any
else:
    Any = object  # for annotations in all files of this folder

Callback = Callable[[ModuleType], object]

_waiting: dict[str, list[Callback]] = {}
_sought: dict[str, list[Callable[[], None]]] = {}


def when_imported(name: str, callback: Callback) -> None:
    """Call `callback(module)` once `name` has been imported: now if it has been, else right after its import."""
    module = sys.modules.get(name)
    being_imported = getattr(getattr(module, "__spec__", None), "_initializing", False)
    if module is not None and not being_imported:
        _try(name, callback, module)
    else:
        _waiting.setdefault(name, []).append(callback)
        _take_part()


def when_sought(name: str, callback: Callable[[], None]) -> None:
    """Call `callback()` as soon as somebody wants to import the package `name`, before it is looked for."""
    if name in sys.modules:
        _try(name, callback)
    else:
        _sought.setdefault(name, []).append(callback)
        _take_part()


def when_sought_load(
    package: str, files: dict[str, str], use: Callable[[Any], None]
) -> None:
    """Import a file of our `package` and hand it to `use`, as soon as the program asks for one of the libraries that it is for."""

    @cache
    def load(file: str) -> None:
        use(importlib.import_module(f"{package}.{file}"))

    for file, libraries in files.items():
        for library in libraries.split():
            when_sought(library, partial(load, file))


def forget() -> None:
    """Take the finder away and drop every callback that has not been called."""
    _waiting.clear()
    _sought.clear()
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _take_part() -> None:
    if not any(finder is _finder for finder in sys.meta_path):
        sys.meta_path.insert(0, _finder)


def _try(name: str, function: Callable[..., object], *arguments: ModuleType) -> None:
    try:
        function(*arguments)
    except Exception as error:  # the library has changed: the training must not suffer
        from cutaway import _recorder

        _recorder.note(f"{name} is not fully recorded: {type(error).__name__}: {error}")


def _imported(name: str, module: ModuleType) -> None:
    for callback in _waiting.pop(name, ()):
        _try(name, callback, module)


class _Finder:
    """Finds nothing itself: asks the other finders, and has the loader that they return report back."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        for callback in _sought.pop(name, ()):
            _try(name, callback)
        if name not in _waiting:
            return None
        others = [
            finder
            for finder in sys.meta_path
            if finder is not self and hasattr(finder, "find_spec")
        ]
        specs = (finder.find_spec(name, path, target) for finder in others)
        spec: Any = next((spec for spec in specs if spec is not None), None)
        loader = getattr(spec, "loader", None)
        if isinstance(loader, type):
            spec.loader = _Shared(name, loader)
        elif hasattr(loader, "exec_module"):
            _report_back(name, loader)
        return spec  # type: ignore[no-any-return]


def _report_back(name: str, loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        vars(loader).pop("exec_module", None)
        execute(module)
        _imported(name, module)

    loader.exec_module = exec_module


class _Shared:
    """Stands for a class that is the loader of all built-in or all frozen modules while it makes one of them.

    Which modules are built in is up to who built Python: Debian has `_socket` and `select` among them.
    """

    def __init__(self, name: str, loader: Any) -> None:
        self._name = name
        self._loader = loader

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)  # type: ignore[no-any-return]

    def exec_module(self, module: ModuleType) -> None:
        spec: Any = module.__spec__
        spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _imported(self._name, module)


_finder = _Finder()
