"""Traces of other tools and what must come out of them."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

from cutaway.trace.imports import import_files
from effort import effort

HERE = Path(__file__).parents[1] / "data"
SHARED = Path(__file__).parents[3] / "shared" / "traces"


def _oracle() -> dict[str, Any]:
    """All traces where they are at hand, else the few that are kept with the tests: those do on the other Pythons."""
    source = (
        effort(SHARED, HERE / "traces")
        if (SHARED / "oracle.json").is_file()
        else HERE / "traces"
    )
    values: dict[str, Any] = json.loads((source / "oracle.json").read_text())
    return {name: value for name, value in values.items() if not name.startswith("_")}


ORACLE = _oracle()


def of_format(start: str) -> list[str]:
    """The names of the traces of one format."""
    return sorted(
        name for name, value in ORACLE.items() if value["format"].startswith(start)
    )


def trace_file(name: str, scratch: Path) -> Path:
    """The file of a trace; databases are kept packed and are unpacked first."""
    for folder in (SHARED, HERE / "traces"):
        if (folder / name).is_file():
            return folder / name
    kept = HERE / "gemm" / Path(name).name
    if kept.is_file():
        return kept
    unpacked = scratch / Path(name).name
    with (
        gzip.open(HERE / "traces" / f"{name}.gz") as packed,
        unpacked.open("wb") as file,
    ):
        shutil.copyfileobj(packed, file)
    return unpacked


def imported(name: str, scratch: Path) -> Path:
    """A run made from a trace."""
    run = scratch / "imported.cutaway"
    import_files([trace_file(name, scratch)], run)
    return run


def differences(
    name: str, found: dict[str, Any], keys: list[str]
) -> dict[str, tuple[Any, Any]]:
    """Those of the keys the oracle knows whose value is another."""
    expected = ORACLE[name]
    told = [key for key in keys if key in expected]
    return {
        key: (found.get(key), expected[key])
        for key in told
        if found.get(key) != expected[key]
    }


TIMES = [
    "span_ns",
    "gpu_busy_ns",
    "gpu_busy_by_device_ns",
    "cpu_only_ns",
    "gpu_only_ns",
    "both_ns",
    "neither_ns",
]
COUNTS = ["n_kernel", "n_gpu", "n_api", "n_cpu_op", "n_memcpy", "n_memset"]
