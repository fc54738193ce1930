"""Descriptions in TOML files: those that come with Cutaway, and those of users."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from cutaway.errors import CutawayError

_toml = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
T = TypeVar("T")


def shipped(folder: Path) -> list[str]:
    """The names of the files in `folder` that come with Cutaway."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read_toml(name: str, folder: Path, what: str, kind: Callable[..., T]) -> T:
    """A description by the path of its TOML file, or by the name of one in `folder` that comes with Cutaway."""
    path = Path(name)
    if not path.exists():
        path = folder / (name.lower().removesuffix(".toml") + ".toml")
    if not path.exists():
        raise CutawayError(
            f"There is no {what} {name!r}; use one of {', '.join(shipped(folder))}, or the path of a TOML file."
        )
    try:
        values: dict[str, Any] = {"name": path.stem, **_toml.loads(path.read_text())}
        known = inspect.signature(kind).parameters
        if unknown := values.keys() - known.keys():
            raise ValueError(
                f"unknown key {min(unknown)!r}; known are {', '.join(sorted(known))}"
            )
        return kind(**values)
    except (TypeError, ValueError) as error:
        raise CutawayError(f"{path} does not describe a {what}: {error}.") from error
