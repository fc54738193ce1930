"""Kernels with the shapes of the operators that launched them, from a Kineto trace (JSON, gzipped or not)."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from cutaway.balance.operators import Operator, cost
from cutaway.balance.stack import Kernel
from cutaway.errors import CutawayError

LIMIT = 2 << 30  # bytes of JSON; such a file is read at once


def read(path: Path) -> list[Kernel]:
    """All kernels of the trace. A kernel's operator is found by its external id."""
    events = _events(path)
    operators = {}
    for event in events:
        args = event.get("args") or {}
        if event.get("cat") == "cpu_op" and "Input Dims" in args:
            operators[args.get("External id")] = _operator(event["name"], args)
    work = _split(events, operators)
    return [_kernel(event, operators, work) for event in events if event.get("cat") == "kernel"]


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
