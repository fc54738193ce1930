"""Kernels with the shapes of the operators that launched them, from a run or from a trace of another tool."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.balance.gpu import Kernel
from cutaway.balance.operators import Cost, Operator, cost
from cutaway.trace.imports import import_files
from cutaway.trace.reader import ProcessTrace, Trace, read_run
from cutaway.vocabulary import DeviceKind


def read(path: Path) -> list[Kernel]:
    """All kernels; a kernel belongs to the operator that launched it."""
    with opened(path) as run:
        return [kernel for process in run.processes for kernel in _kernels(process)]


@contextmanager
def opened(path: Path) -> Iterator[Trace]:
    """The run at this path, or one made from a trace file."""
    if path.is_dir():
        yield read_run(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        import_files([path], Path(folder) / "run.cutaway")
        yield read_run(Path(folder) / "run.cutaway")


def entries(process: ProcessTrace) -> list[dict[str, Any]]:
    """Entries of operators in a log, as far as they are complete."""
    found = [entry for entry in process.log.others if entry["k"] == "operator"]
    return [
        e
        for e in found
        if {"name", "dims", "types", "concrete"} <= e.keys() and isinstance(e.get("calls"), list)
    ]


def operator(entry: dict[str, Any]) -> Operator:
    return Operator(entry["name"], entry["dims"], entry["types"], entry["concrete"])


def _kernels(process: ProcessTrace) -> list[Kernel]:
    records = process.device()
    records = records[records["kind"] == DeviceKind.KERNEL]
    total = Counter[int]()  # nanoseconds of the kernels of one launch
    for record in records:
        total[int(record["correlation"])] += int(record["end"] - record["start"])
    # By launch: what the whole call of its operator costs, and how long all its kernels ran.
    costs: dict[int, tuple[Cost, int]] = {}
    for entry in entries(process):
        whole = cost(operator(entry))
        for call in entry["calls"] if whole is not None else ():
            together = sum(total[launch] for launch in call)
            costs |= dict.fromkeys(call, (whole, together))
    return [_kernel(process, record, *costs.get(int(record["correlation"]), (None, 0))) for record in records]


def _kernel(process: ProcessTrace, record: Any, whole: Cost | None, together: int) -> Kernel:
    """One kernel. An operator that launched several shares its work out by their time."""
    ns = int(record["end"] - record["start"])
    if whole is not None and together > 0:
        part = ns / together
        whole = whole._replace(flops=whole.flops * part, bytes=whole.bytes * part)
    return Kernel(
        process.log.name(int(record["name"])),
        ns,
        blocks=int(np.prod(record["grid"].astype(np.int64))),
        threads=int(np.prod(record["block"].astype(np.int64))),
        registers=int(record["registers"]),
        shared=int(record["shared_static"]) + int(record["shared_dynamic"]),
        cost=whole,
    )
