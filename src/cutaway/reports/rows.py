"""The rows of the tables: what a digest knows, and what more a run is asked for. The page and JSON use them, too."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

from cutaway.analysis.table import totals
from cutaway.vocabulary import NATIVE_CODE

from . import text
from .columns import Rows
from .device_memory import device_name
from .digest import Digest, Process
from .groups import Group, outline, workforce
from .lines import ranked
from .threads import waits_for_gil

if TYPE_CHECKING:
    from cutaway.analysis import Run, Table

WAITED = 0.1  # of its time: for whom it waits so long, their lines are worth a look
_DERIVED = ("life_ns", "cpu_share", "wait_share", "mostly")


def process_rows(digest: Digest) -> Rows:
    """All processes, in order of their start."""
    return [{**asdict(one), **_fields(one, _DERIVED)} for one in digest.processes]


def all_processes(run: Run, digest: Digest) -> Rows:
    """For `--by process`."""
    return process_rows(digest)


def all_callsites(run: Run, digest: Digest) -> Rows:
    """For `--by callsite`."""
    return callsite_rows(digest)


def brief_rows(digest: Digest) -> Rows:
    """The processes of a small run; its helpers are one row."""
    processes, helpers = workforce(digest.processes)
    shown: list[Process | Group] = [
        *processes,
        *([Group.of(helpers)] if helpers else []),
    ]
    keys = ("name", "pid", "role", "exit", *_DERIVED)
    return [_fields(one, keys) for one in shown]


def group_rows(digest: Digest) -> Rows:
    """The processes of a large run by host and role, the odd ones out by name below their group."""
    keys = ("name", "pid", "role", "exit", *_DERIVED)
    rows = []
    several = len({p.host for p in digest.processes}) > 1
    for shown in outline(digest.processes):
        row = {key: getattr(shown, key) for key in keys}
        rows.append(row | ({"role": f"{shown.role} @{shown.host}"} if several else {}))
    return rows


def operation_rows(run: Run, digest: Digest) -> Rows:
    own = digest.operations()
    rows = _main(run.operations(), digest)
    rows.sort(key=lambda row: -own.get(row["operation"], 0))
    return [
        {**row, "share": _of_total(digest, own.get(row["operation"], 0))}
        for row in rows
    ]


def reason_rows(run: Run, digest: Digest) -> Rows:
    table = run.breakdown(by=("process", "operation", "why")).sort(
        "ns", descending=True
    )
    rows = _main(table, digest, "operation", "why", "ns")
    total = max(1, sum(row["ns"] for row in rows))
    return [{**row, "share": row["ns"] / total} for row in rows]


def layer_rows(run: Run, digest: Digest) -> Rows:
    found = totals(
        ((cell.layer, cell.resource), cell.ns) for cell in digest.spent.cells
    )
    rows = []
    for (layer, resource), ns in sorted(found.items(), key=lambda item: -item[1]):
        named = {"layer": layer, "resource": resource}
        figures = {"ns": ns, "per_unit_ns": ns / digest.pace.units}
        rows.append({**named, "share": _of_total(digest, ns), **figures})
    return rows


def callsite_rows(digest: Digest) -> Rows:
    """Call sites, the longest first; `near` is your line where one is known, else the library's."""
    rows = [asdict(spot) for spot in digest.code.callsites]
    for row in rows:
        near = "your_" if row["your_file"] else ""
        row |= {"near_file": row[f"{near}file"], "near_line": row[f"{near}line"]}
    return rows


def kernel_rows(run: Run, digest: Digest) -> Rows:
    """By name, kind and launching operation, the longest first."""
    groups: defaultdict[tuple[str, str, str], Rows] = defaultdict(list)
    for row in run.kernels():
        groups[row["name"], row["kind"], row["operation"]].append(row)
    rows = [_joined_kernels(parts) for parts in groups.values()]
    return sorted(rows, key=lambda row: -int(row["ns"]))


def _joined_kernels(parts: Rows) -> dict[str, Any]:
    """Kernels of one name, of all shapes and streams, as one row."""
    first = parts[0]
    found = {key: first[key] for key in ("name", "kind", "operation")}
    for key in ("ns", "count"):
        found[key] = sum(part[key] for part in parts)
    for key in ("occupancy", "launch_ns", "queue"):
        found[key] = _mean(parts, key)
    for key in ("grid", "block", "stream"):
        found[key] = sorted({part[key] for part in parts})
    return found


def _mean(parts: Rows, key: str) -> float | None:
    """Over all launches of which the value is known (not NaN)."""
    known = [part for part in parts if part[key] == part[key]]
    count = sum(part["count"] for part in known)
    if not count:
        return None
    return float(sum(part[key] * part["count"] for part in known) / count)


def counter_rows(run: Run, digest: Digest) -> Rows:
    """Hardware counters; a measure without counters is None."""
    rows = list(run.counters())
    for row in rows:
        unknown = [key for key, value in row.items() if value != value]
        row.update(dict.fromkeys(unknown))
    return rows


def place_rows(by: str, run: Run, digest: Digest) -> Rows:
    """Lines or functions, each once, with what they spend their time on in `calls`."""
    return ranked(_main(run.lines(by), digest), digest.total_ns)


def awaited_lines(run: Run, digest: Digest) -> Rows:
    """Where the processes that the main process waits for spend their time, without their own waits; shares are of that
    time. Empty if it hardly waits for others."""
    own = [wait for wait in digest.waits if wait.process == digest.main_process]
    others = set(chain.from_iterable(wait.among for wait in own))
    others.discard(digest.main_process)
    waited = sum(wait.ns for wait in own if others.intersection(wait.among))
    if waited < WAITED * digest.total_ns or not others:
        return []
    parts = [part for part in run.lines("line") if part["process"] in others]
    # Who waits for its next task is idle; who sleeps makes others wait.
    parts = [p for p in parts if p["layer"] != "wait" or p["native"] in text.SLEEPS]
    return ranked(parts, sum(part["ns"] for part in parts))


def holder_lines(digest: Digest) -> Rows:
    """Where other threads run Python while the main one waits for the interpreter lock; shares are of that wait. Empty if it
    hardly waits for it."""
    waited = waits_for_gil(digest)
    if waited < WAITED * digest.total_ns:
        return []
    parts = []
    for row in digest.spent.gil_holders:
        time = {"ns": waited * row["share"], "error_ns": waited * row["error"]}
        parts.append({**row, **time, "native": ""})
    return ranked(parts, waited)


def transition_rows(run: Run, digest: Digest) -> Rows:
    rows = _main(
        run.transitions(),
        digest,
        "operation",
        "from",
        "to",
        "function",
        "file",
        "line",
        "count",
    )
    return [{**row, "per_unit": row["count"] / digest.pace.units} for row in rows]


def wait_rows(run: Run, digest: Digest) -> Rows:
    """Who waits for whom on what; a pipe is a pipe, whatever number the system gave it. Helpers wait all the time."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    processes, _ = workforce(digest.processes)
    works = {process.id for process in processes}
    for wait in digest.waits:
        if wait.process not in works:
            continue
        about = {
            "process": digest.processes[wait.process].name,
            "for": wait.partner.removeprefix(f"{NATIVE_CODE} at ") or "unknown",
            "on": _thing(wait.on),
            "operation": wait.operation,
        }
        row = found.setdefault((*about.values(),), {**about, "ns": 0, "count": 0})
        row["ns"] += wait.ns
        row["count"] += wait.count
    return sorted(found.values(), key=lambda row: -int(row["ns"]))


_RAY_ID = re.compile(r"[0-9a-f]{24,}")
_THINGS = {"": "unknown", "sem": "semaphore", "pid": "its end", "thread": "lock"}


def _thing(on: str) -> str:
    """What was waited on, without numbers that mean something to the system only.

    >>> _thing("socket:21733"), _thing("sem:/mp-x"), _thing("tcp:10.0.0.1:22>10.0.0.2:80"), _thing("actor:Sampler")
    ('socket', 'semaphore', 'tcp 10.0.0.2:80', 'actor:Sampler')
    >>> _thing("actor:28e93fa1c2d3e4f5a6b7c8d901000000,99b7c8d901000000a6b7c8d901000000")
    'actor'
    """
    kind, _, identity = on.partition(":")
    if _RAY_ID.match(identity):
        return kind
    if kind == "tcp":
        return f"tcp {identity.partition('>')[2]}".strip()
    if kind in ("actor", "task"):
        return on
    return _THINGS.get(kind, kind)


def memory_rows(run: Run, digest: Digest) -> Rows:
    """What lines keep at the end, in all processes; memory that no line of yours asked for has the library's line."""
    rows = []
    for row in run.memory():
        near = "your_" if row["your_file"] else ""
        place = {key: row[near + key] for key in ("function", "file", "line")}
        name = digest.processes[row["process"]].name
        own = {"name": name, "library": not near, **place}
        rows.append({**row, **own, "per_hour": row["per_s"] * 3600})
    keys = ("process", "operation", "what", "function", "file", "line")
    sums = ("bytes", "blocks", "grown", "per_hour", "low_per_s")
    return _joined(rows, keys, sums)


def device_memory_rows(run: Run, digest: Digest) -> Rows:
    """Memory of devices by line and operation, with the names of processes and devices."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in run.device_memory():
        near = "your_" if row["your_file"] else ""
        place = {key: row[near + key] for key in ("function", "file", "line")}
        name = digest.processes[row["process"]].name
        on = device_name(row["device"])
        key = (row["process"], row["device"], row["operation"], *place.values())
        library = bool(place["file"]) and not near
        own = {"name": name, "on": on, "library": library, **place}
        if key in found:
            _add_memory(found[key], row)
        else:
            found[key] = {**row, **own}
    return sorted(found.values(), key=lambda row: (-row["held"], -row["peak"]))


def _add_memory(one: dict[str, Any], row: dict[str, Any]) -> None:
    """Take another row of the same line into one."""
    if one["peak"] < row["peak"]:
        one.update({name: row[name] for name in ("peak", "reserved", "unused")})
    for name in ("held", "kept", "count"):
        one[name] += row[name]


def rollout_rows(run: Run, digest: Digest) -> Rows:
    """Passes of the training loop of a language model, the longest first."""
    rows = []
    for row in run.generated():
        known = {key: None if value != value else value for key, value in row.items()}
        ns = row["end_ns"] - row["start_ns"]
        if row["decoding_ns"]:
            tail = row["tail_ns"] / row["decoding_ns"]
        else:
            tail = None
        rate = row["tokens"] / ns * 1e9
        rows.append({**known, "ns": ns, "tail_share": tail, "rate": rate})
    return sorted(rows, key=lambda row: -int(row["ns"]))


def _joined(rows: Rows, keys: Sequence[str], sums: Sequence[str]) -> Rows:
    """Rows that differ in nothing but what they sum up, as one; errors add like those of independent counts."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in rows:
        key = tuple(row[name] for name in keys)
        one = found.setdefault(
            key, {**row, **dict.fromkeys(sums, 0), "error_bytes": 0.0}
        )
        for name in sums:
            one[name] += row[name]
        one["error_bytes"] = (one["error_bytes"] ** 2 + row["error_bytes"] ** 2) ** 0.5
    return sorted(found.values(), key=lambda row: -int(row["bytes"]))


def _main(table: Table, digest: Digest, *columns: str) -> Rows:
    """The rows about the main process."""
    return list(
        table.where(process=digest.main_process).select(*(columns or table.columns))
    )


def _of_total(digest: Digest, ns: float) -> float:
    return ns / max(1, digest.total_ns)


def _fields(one: object, keys: Iterable[str]) -> dict[str, Any]:
    return {key: getattr(one, key) for key in keys}
