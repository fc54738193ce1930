"""From a digest to what the page's script draws. Every number is final here; the script only places it."""

from __future__ import annotations

import linecache
import re
from collections.abc import Mapping
from typing import Any

from . import words
from .model import DEVICE_LAYERS, LAYERS, Digest, Process
from .phrases import percent
from .printer import colour
from .terminal import honesty
from .verdict import Verdict

RESOURCES = ("cpu", "cpu+gpu", "gpu", "idle")
MOST_OPERATIONS, MOST_WAITS, MOST_HOTSPOTS, MOST_TRANSITIONS, MOST_NAME = 12, 40, 25, 30, 120
_PARTS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def page_data(
    digest: Digest,
    verdict: Verdict,
    lanes: dict[str, Any] | None,
    strips: Mapping[int, str],
    devices: list[dict[str, Any]],
    source: bool,
) -> dict[str, Any]:
    """Everything the page shows."""
    few = digest.folded(MOST_OPERATIONS)
    names = list(few.operations())
    shown = {operation for operation, _ in (lanes or {}).get("planes", [])}
    names += [name for name in sorted(shown) if name not in names]
    return {
        "schema": "cutaway.report/1",
        "title": short(f"Cutaway report — {digest.title}"),
        "meta": short(" · ".join(_meta(digest)), 300),
        "verdict": {
            "label": verdict.label,
            "because": short(verdict.because, 400),
            "advice": short(verdict.advice, 300),
            "expected": verdict.expected,
            "then": short(verdict.then, 300),
            "certain": verdict.certain,
            "warnings": [short(text, 400) for text in verdict.warnings],
        },
        "tiles": _tiles(digest),
        "unit": digest.unit,
        "total": digest.total_ns / (digest.units or 1) / 1e6,
        "colours": {short(name): colour(name, names) for name in names},
        "bars_title": _bars_title(digest),
        "bars": _bars(few),
        "lanes_title": f"What {words.plural(len(digest.processes), 'process')} did over time (drag to zoom)",
        "lanes": lanes,
        "waits": _waits(digest),
        "hotspots": _hotspots(digest, source),
        "transitions": [
            {"operation": short(t.operation), "from": t.origin, "to": t.target, "per": t.per_iteration}
            for t in digest.transitions[:MOST_TRANSITIONS]
        ],
        "tree": [*_tree(digest, strips), *devices],
        "notes": [short(note, 300) for note in digest.notes],
        "footer": [short(line, 300) for line in honesty(digest)],
    }


def short(text: str, most: int = MOST_NAME) -> str:
    """Bounded text without control characters; markup stays text on the page and needs no care here."""
    text = _PARTS.sub("?", text)
    return text if len(text) <= most else text[: most - 1] + "…"


def _meta(digest: Digest) -> list[str]:
    versions = [f"{name} {version}" for name, version in list(digest.versions.items())[:2]]
    python = f"python {digest.python}" if digest.python else ""
    parts = [digest.created[:16].replace("T", " "), f"host {digest.host}", *digest.devices]
    return [p for p in (*parts, words.plural(digest.machine.cores, "core"), *versions, python) if p]


def _tiles(digest: Digest) -> list[list[str]]:
    machine, tiles = digest.machine, []
    if digest.steps_per_second:
        tiles.append([words.number(digest.steps_per_second), "steps / s"])
    if digest.unit != "run":
        tiles.append(
            [
                words.duration(digest.total_ns / (digest.units or 1)),
                f"per {digest.unit}, {digest.iterations or digest.steps} in all",
            ]
        )
    if machine.device_busy is not None:
        smi = f" (nvidia-smi: {percent(machine.nvidia_smi)})" if machine.nvidia_smi is not None else ""
        tiles.append([percent(machine.device_busy), f"GPU busy{smi}"])
    else:
        tiles.append(["–", "GPU busy: no accelerator recorded"])
    if machine.cores_busy is not None:
        tiles.append([f"{machine.cores_busy:.1f} / {machine.cores}", "CPU cores busy"])
    if machine.watts:
        tiles.append([f"{words.number(machine.watts)} W", "mean power"])
        if digest.steps_per_second:
            tiles.append([words.number(digest.steps_per_second / machine.watts), "steps / J"])
    if digest.correction:
        c = digest.correction
        tiles.append([f"{c.removed * 100:.1f} ± {c.error * 100:.1f} %", "overhead removed"])
    else:
        tiles.append(["not corrected", "the recorder's own cost is in the figures"])
    rest = ", and all after recording stopped" if digest.stopped else ""
    tiles.append([str(sum(digest.losses.values())), f"lost of {digest.events} events{rest}"])
    return tiles


def _bars_title(digest: Digest) -> str:
    whose = f" of {digest.main.name} (pid {digest.main.pid})" if len(digest.processes) > 1 else ""
    state = "corrected" if digest.correction else "not corrected"
    start = (
        "the whole run"
        if digest.unit == "run"
        else f"{'an' if digest.unit == 'iteration' else 'a'} {digest.unit}"
    )
    return short(
        f"Where {start}{whose} goes: operation × layer of the stack (per {digest.unit}, {state})", 200
    )


def _bars(digest: Digest) -> list[dict[str, Any]]:
    unit = (digest.units or 1) * 1e6
    bars = []
    for name, total in digest.operations().items():
        mine = [c for c in digest.cells if c.operation == name and c.layer not in DEVICE_LAYERS]
        layers = [(la, sum(c.ns for c in mine if c.layer == la) / unit) for la in LAYERS]
        resources = [(r, sum(c.ns for c in mine if c.resource == r) / unit) for r in RESOURCES]
        error = sum((c.high_ns - c.low_ns) / 2 for c in mine) / unit if digest.correction else 0
        bars.append(
            {
                "operation": short(name),
                "total": total / unit,
                "error": error,
                "layers": [[la, ms] for la, ms in layers if ms > 0],
                "device": [
                    [la, digest.device_cells.get((name, la), 0) / unit]
                    for la in LAYERS
                    if la in DEVICE_LAYERS
                ],
                "resources": [[r, ms] for r, ms in resources if ms > 0],
            }
        )
    return bars


def _who(process: Process | None) -> str:
    return short(process.name or f"pid {process.pid}", 40) if process else "unknown"


def _waits(digest: Digest) -> list[dict[str, Any]]:
    """Waits by who and whom; many siblings waiting alike become one row."""
    total: dict[tuple[str, str, str], list[float]] = {}
    roles = digest.roles()
    for wait in digest.waits:
        process, other = digest.process(wait.process), digest.process(wait.for_process)
        if process is None:
            continue
        key = (_sibling(process, roles), _sibling(other, roles) if other else _thing(wait.on), wait.operation)
        sums = total.setdefault(key, [0.0, 0.0])
        sums[0] += wait.ns
        sums[1] += wait.ns / max(1, sum(process.layers.values()) or process.life_ns)
    rows: list[dict[str, Any]] = [
        {
            "who": who,
            "whom": whom,
            "operation": short(operation),
            "ms": ns / 1e6,
            "share": share / _siblings(who, roles),
        }
        for (who, whom, operation), (ns, share) in total.items()
    ]
    rows = [row for row in rows if row["share"] >= 0.001]
    return sorted(rows, key=lambda row: -row["ms"])[:MOST_WAITS]


def _sibling(process: Process, roles: Mapping[str, int]) -> str:
    count = roles.get(process.role or "process", 1)
    return f"{count} × {process.role}" if count > 4 and process.role else _who(process)


def _siblings(who: str, roles: Mapping[str, int]) -> int:
    count, _, role = who.partition(" × ")
    return int(count) if role in roles and count.isdigit() else 1


def _thing(on: str) -> str:
    return short(on.split(":")[0] or "unknown", 30)


def _hotspots(digest: Digest, source: bool) -> list[dict[str, Any]]:
    rows = []
    for spot in [h for h in digest.hotspots if h.layer != "wait"][:MOST_HOTSPOTS]:
        place = words.shorten(words.place(spot.file, spot.line) or "unknown place", 70)
        place = f"{place} in {spot.caller}" if spot.caller else place
        if spot.your_file and (spot.your_file, spot.your_line) != (spot.file, spot.line):
            place = f"your {words.shorten(words.place(spot.your_file, spot.your_line), 50)}, through {place}"
        row = {
            "function": short(spot.function),
            "place": short(place, 200),
            "operation": short(spot.operation),
            "ms": spot.ns / 1e6,
            "count": spot.count,
        }
        if source:
            row["source"] = short(linecache.getline(spot.file, spot.line).strip(), 160)
        rows.append(row)
    return rows


def _tree(digest: Digest, strips: Mapping[int, str]) -> list[dict[str, Any]]:
    children: dict[int, list[Process]] = {}
    for process in digest.processes:
        children.setdefault(process.parent, []).append(process)
    rows: list[dict[str, Any]] = []
    seen: set[int] = set()
    # The roots first; behind them everyone, in case parents form a ring (a pid that was used twice).
    waiting = [(process, 0) for process in reversed([*children.get(-1, []), *digest.processes])]
    while waiting:
        process, depth = waiting.pop()
        if process.id in seen:
            continue
        seen.add(process.id)
        cpu = percent(process.cpu_ns / process.life_ns) if process.life_ns and process.cpu_ns else "–"
        rows.append(
            {
                "name": _who(process),
                "pid": process.pid,
                "role": short(process.role, 30),
                "depth": min(depth, 8),
                "exit": short(process.exit, 40),
                "cpu": cpu,
                "strip": strips.get(process.id, ""),
            }
        )
        waiting += [(child, depth + 1) for child in reversed(children.get(process.id, []))]
    return rows
