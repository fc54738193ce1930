"""Operators with the shapes of their inputs (`record_shapes=True`), and which launches each call of them made.

Shapes are nested lists, which the column reader does not know: a file that has any is parsed a second time, as a whole, if it
is not too large for that.
"""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import IO, Any, cast

from cutaway.record.devices.events import operator_entries

MOST_BYTES = 96 << 20  # of JSON; the parsed file takes several times as much
PIECE = 1 << 20
MARK = b'"Input Dims"'
TOO_LARGE = "the shapes of operators were not kept: the file is too large to be read as a whole"


def operators(path: Path) -> tuple[list[dict[str, Any]], str]:
    """Log entries of kind "operator", and a note if shapes had to be left out."""
    try:
        size, marked = _look(path)
        if not marked:
            return [], ""
        if size > MOST_BYTES:
            return [], TOO_LARGE
        with _opened(path) as file:
            loaded = json.load(file)
    except (OSError, EOFError, ValueError, RecursionError):
        return [], ""  # the column reader has said what is wrong with the file, or could live with it
    events = loaded.get("traceEvents", []) if isinstance(loaded, dict) else loaded
    return _entries([event for event in events if isinstance(event, dict) and event.get("ph") == "X"]), ""


def _opened(path: Path) -> IO[bytes]:
    with path.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
    return cast("IO[bytes]", gzip.open(path, "rb")) if packed else path.open("rb")


def _look(path: Path) -> tuple[int, bool]:
    """Bytes of the text, and whether shapes are in it; piece by piece, because most files have none."""
    size, marked, tail = 0, False, b""
    with _opened(path) as file:
        while piece := file.read(PIECE):
            size += len(piece)
            marked = marked or MARK in tail + piece
            tail = piece[-len(MARK) :]
            if marked and size > MOST_BYTES:
                break
    return size, marked


def _entries(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    launched: dict[Any, list[int]] = {}
    for event in events:
        about = event.get("args")
        if event.get("cat") == "kernel" and isinstance(about, dict):
            correlation = about.get("correlation")
            if isinstance(correlation, int):
                launched.setdefault(about.get("External id"), []).append(correlation)
    calls = []
    for event in events:
        about = event.get("args")
        if event.get("cat") != "cpu_op" or not isinstance(about, dict) or "Input Dims" not in about:
            continue
        correlations = launched.get(about.get("External id"))
        if correlations:
            told = (about["Input Dims"], about.get("Input type", []), about.get("Concrete Inputs", []))
            calls.append(((str(event.get("name", "")), *told), sorted(set(correlations))))
    return operator_entries(calls)
