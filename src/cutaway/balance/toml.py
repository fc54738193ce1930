"""TOML files: the standard library's reader, or tomli on Python 3.10."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

_reader = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")


def read(path: Path) -> dict[str, Any]:
    """The values of a file; ValueError when it is not TOML."""
    values: dict[str, Any] = _reader.loads(path.read_text())
    return values
