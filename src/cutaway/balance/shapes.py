"""Kernels with the shapes of the operators that launched them, from a Kineto trace (JSON, gzipped or not) or from a run."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.balance.operators import Cost, Operator, cost
from cutaway.balance.stack import Kernel
from cutaway.errors import CutawayError
from cutaway.trace.format import DeviceKind
from cutaway.trace.reader import ProcessTrace, read_run

LIMIT = 2 << 30  # bytes of JSON; such a file is read at once


def read(path: Path) -> list[Kernel]:
    """All kernels of a trace, where a kernel's operator is found by its external id, or of a run, where it is by the launch."""
    if path.is_dir():
        return [kernel for process in read_run(path).processes for kernel in _of_process(process)]
    events = _events(path)
    operators = {}
    for event in events:
        args = event.get("args") or {}
        if event.get("cat") == "cpu_op" and "Input Dims" in args:
            operators[args.get("External id")] = _operator(event["name"], args)
    work = _split(events, operators)
    return [_kernel(event, operators, work) for event in events if event.get("cat") == "kernel"]


def _of_process(process: ProcessTrace) -> list[Kernel]:
    """The kernels of one process. Operators stand in its log if shapes were recorded or imported."""
    records = process.device()
    records = records[records["kind"] == DeviceKind.KERNEL]
    ns = (records["end"] - records["start"]).astype(np.int64)
    total: dict[int, int] = {}
    for correlation, lasted in zip(records["correlation"].tolist(), ns.tolist(), strict=True):
        total[correlation] = total.get(correlation, 0) + lasted
    costs: dict[
        int, tuple[Cost, int]
    ] = {}  # of the whole call of an operator, and how long all its kernels ran
    for entry in process.log.others:
        if entry["k"] == "operator":
            costs |= _costs(entry, total)
    return [_recorded(process, record, costs) for record in records]


def _costs(entry: dict[str, Any], total: dict[int, int]) -> dict[int, tuple[Cost, int]]:
    try:
        whole = cost(Operator(entry["name"], entry["dims"], entry["types"], entry["concrete"]))
        calls = [call for call in entry["calls"] if isinstance(call, list)]
    except KeyError:
        return {}
    if whole is None:
        return {}
    return {c: (whole, sum(total.get(other, 0) for other in call)) for call in calls for c in call}


def _recorded(process: ProcessTrace, record: Any, costs: dict[int, tuple[Cost, int]]) -> Kernel:
    lasted = int(record["end"] - record["start"])
    whole, together = costs.get(int(record["correlation"]), (None, 0))
    if whole is not None and together > 0:
        part = lasted / together
        whole = whole._replace(flops=whole.flops * part, bytes=whole.bytes * part)
    return Kernel(
        process.log.name(int(record["name"])),
        lasted,
        blocks=int(np.prod(record["grid"].astype(np.int64))),
        threads=int(np.prod(record["block"].astype(np.int64))),
        registers=int(record["registers"]),
        shared=int(record["shared_static"]) + int(record["shared_dynamic"]),
        cost=whole,
    )


def operators(path: Path) -> list[tuple[Operator, int]]:
    """Operators that launched kernels, each with the nanoseconds of its kernels."""
    found: dict[Any, tuple[Operator, int]] = {}
    events = _events(path)
    by_id = {(e.get("args") or {}).get("External id"): e for e in events if e.get("cat") == "cpu_op"}
    for event in events:
        if event.get("cat") != "kernel":
            continue
        key = event["args"].get("External id")
        source = by_id.get(key)
        if source is None or "Input Dims" not in source["args"]:
            continue
        op, ns = found.get(key, (_operator(source["name"], source["args"]), 0))
        found[key] = op, ns + round(1000 * event["dur"])
    return list(found.values())


def _events(path: Path) -> list[dict[str, Any]]:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else path.open("rb") as file:
            text = file.read(LIMIT + 1)
        if len(text) > LIMIT:
            raise CutawayError(f"{path} holds more than {LIMIT >> 30} GiB of JSON: cut it to a window first.")
        loaded = json.loads(text)
        events = loaded["traceEvents"] if isinstance(loaded, dict) else loaded
        return [e for e in events if isinstance(e, dict) and e.get("ph") == "X"]
    except (OSError, EOFError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CutawayError(f"{path} is not a readable Kineto trace ({error}).") from error


def _operator(name: str, args: dict[str, Any]) -> Operator:
    return Operator(name, args["Input Dims"], args.get("Input type", ()), args.get("Concrete Inputs", ()))


def _split(events: list[dict[str, Any]], operators: dict[Any, Operator]) -> dict[Any, float]:
    """Total kernel time of each operator: one that launched several kernels shares its work out by their time."""
    total: dict[Any, float] = {}
    for event in events:
        key = (event.get("args") or {}).get("External id")
        if event.get("cat") == "kernel" and key in operators:
            total[key] = total.get(key, 0.0) + float(event["dur"])
    return total


def _kernel(event: dict[str, Any], operators: dict[Any, Operator], total: dict[Any, float]) -> Kernel:
    args = event["args"]
    key = args.get("External id")
    whole = cost(operators[key]) if key in operators else None
    if whole is not None and total[key] > 0:
        part = float(event["dur"]) / total[key]
        whole = whole._replace(flops=whole.flops * part, bytes=whole.bytes * part)
    grid, block = args.get("grid") or [0], args.get("block") or [0]
    return Kernel(
        event["name"],
        round(1000 * event["dur"]),
        blocks=grid[0] * (grid[1] if len(grid) > 1 else 1) * (grid[2] if len(grid) > 2 else 1),
        threads=block[0] * (block[1] if len(block) > 1 else 1) * (block[2] if len(block) > 2 else 1),
        registers=int(args.get("registers per thread", 0)),
        shared=int(args.get("shared memory", 0)),
        cost=whole,
    )
