"""The page of a run: what its script draws. Every number is final here; the script only places it."""

from __future__ import annotations

import linecache
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.processes import cpu_over_time
from cutaway.analysis.table import totals
from cutaway.analysis.utilisation import usage
from cutaway.reports import text
from cutaway.reports.digest import MANY, Digest, Group, Process, outline
from cutaway.reports.gather import digest, open_run
from cutaway.reports.printer import colour
from cutaway.reports.tables import callsite_rows
from cutaway.reports.terminal import caveats
from cutaway.reports.text import percent
from cutaway.vocabulary import DEVICE_LAYERS, RESOURCES, THREAD_LAYERS

from . import assemble
from .flame import flame_data
from .lanes import build_lanes, windows

MOST_OPERATIONS, MOST_WAITS, MOST_HOTSPOTS, MOST_TRANSITIONS, MOST_NAME = 12, 40, 25, 30, 120
STRIP = 120
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def build_page(path: str | os.PathLike[str], source: bool = False) -> str:
    """The HTML of a run."""
    data = page_data(open_run(path), source)
    return assemble(data["title"], data)


def page_data(run: Run, source: bool = False) -> dict[str, Any]:
    """Everything the page shows."""
    run.windows = windows(run.trace)
    found = digest(run)
    lanes = build_lanes(run, found)
    few = found.folded(MOST_OPERATIONS)
    names = list(few.operations())
    names += sorted({operation for operation, _ in (lanes or {}).get("planes", [])} - set(names))
    verdict = found.verdict
    return {
        "title": short(f"Cutaway report — {found.title}"),
        "meta": short(" · ".join(_meta(found)), 300),
        "verdict": {
            **{
                key: short(getattr(verdict, key), 400)
                for key in ("label", "because", "advice", "expected", "then")
            },
            "certain": verdict.certain,
            "warnings": [short(warning, 400) for warning in verdict.warnings],
        },
        "tiles": _tiles(found),
        "unit": found.unit,
        "total": found.total_ns / found.each / 1e6,
        "colours": {short(name): colour(name, names) for name in names},
        "bars_title": _bars_title(found),
        "bars": _bars(few),
        "stretches": _stretches(few),
        "lanes_title": f"What {text.plural(len(found.processes), 'process')} did over time (drag to zoom)",
        "lanes": lanes,
        "flame": flame_data(run.steady()),
        "waits": _waits(found),
        "hotspots": _hotspots(found, source),
        "transitions": [
            {"operation": short(t["operation"]), "from": t["origin"], "to": t["target"], "per": t["per_unit"]}
            for t in found.transitions[:MOST_TRANSITIONS]
        ],
        "tree": [*_tree(run, found), *_device_strips(run)],
        "notes": [short(note, 300) for note in found.notes],
        "footer": [short(line, 300) for line in caveats(found)],
    }


def short(name: str, most: int = MOST_NAME) -> str:
    """Bounded text without control characters; markup stays text on the page and needs no care here."""
    return text.clip(_CONTROL.sub("?", name), most)


def _meta(found: Digest) -> list[str]:
    versions = [f"{name} {version}" for name, version in list(found.versions.items())[:2]]
    python = f"python {found.python}" if found.python else ""
    parts = [found.created[:16].replace("T", " "), f"host {found.host}", *found.devices]
    return [p for p in (*parts, text.plural(found.machine.cores, "core"), *versions, python) if p]


def _tiles(found: Digest) -> list[list[str]]:
    """Key figures: value and label."""
    machine, steps, c = found.machine, found.steps_per_second, found.correction
    tiles = [[text.number(steps), "steps / s"]] if steps else []
    if found.unit != "run":
        each = text.duration(found.total_ns / found.each)
        tiles.append([each, f"per {found.unit}, {found.iterations or found.steps} in all"])
    if machine.device_busy is not None:
        smi = f" (nvidia-smi: {percent(machine.nvidia_smi)})" if machine.nvidia_smi is not None else ""
        tiles.append([percent(machine.device_busy), f"GPU busy{smi}"])
    else:
        tiles.append(["–", "GPU busy: no accelerator recorded"])
    if machine.cores_busy is not None:
        tiles.append([f"{machine.cores_busy:.1f} / {machine.cores}", "CPU cores busy"])
    if machine.watts:
        tiles.append([f"{text.number(machine.watts)} W", "mean power"])
        tiles += [[text.number(steps / machine.watts), "steps / J"]] if steps else []
    if c:
        tiles.append([f"{c.removed * 100:.1f} ± {c.error * 100:.1f} %", "overhead removed"])
    else:
        tiles.append(["not corrected", "the recorder's own cost is in the figures"])
    rest = ", and everything after recording stopped" if found.stopped else ""
    return [*tiles, [str(sum(found.losses.values())), f"lost of {found.events} events{rest}"]]


def _bars_title(found: Digest) -> str:
    whose = f" of {found.main.name} (pid {found.main.pid})" if len(found.processes) > 1 else ""
    state = "corrected" if found.correction else "not corrected"
    what = {"run": "the whole run", "iteration": "an iteration"}.get(found.unit, f"a {found.unit}")
    return short(f"Where {what}{whose} goes: operation × layer of the stack (per {found.unit}, {state})", 200)


def _bars(found: Digest) -> list[dict[str, Any]]:
    unit = found.each * 1e6
    cells = [c for c in found.cells if c.layer in THREAD_LAYERS]
    layers = totals(((c.operation, c.layer), c.ns) for c in cells)
    resources = totals(((c.operation, c.resource), c.ns) for c in cells)
    device = totals(((d["operation"], d["layer"]), d["ns"]) for d in found.device_time)
    error = totals((c.operation, c.high_ns - c.low_ns) for c in cells)
    return [
        {
            "operation": short(name),
            "total": total / unit,
            "error": error.get(name, 0) / 2 / unit if found.correction else 0,
            "layers": [[la, layers[name, la] / unit] for la in THREAD_LAYERS if layers.get((name, la))],
            "device": [[la, device.get((name, la), 0) / unit] for la in DEVICE_LAYERS.values()],
            "resources": [[r, resources[name, r] / unit] for r in RESOURCES if resources.get((name, r))],
        }
        for name, total in found.operations().items()
    ]


def _stretches(found: Digest) -> list[dict[str, Any]]:
    """The pace and the shares of the operations over the run; times in seconds since its start."""
    names = list(found.operations())
    steps = any(s.steps_per_second for s in found.stretches)
    return [
        {
            "from": s.start_ns / 1e9,
            "to": s.end_ns / 1e9,
            "rate": s.steps_per_second if steps else s.iterations_per_second,
            "what": "steps" if steps else "iterations",
            "shares": [[short(name), s.shares[name]] for name in names if s.shares.get(name)],
        }
        for s in found.stretches
    ]


def _waits(found: Digest) -> list[dict[str, Any]]:
    """Waits by who and whom; many siblings waiting alike become one row."""
    roles = found.roles()
    spent: defaultdict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for wait in found.waits:
        process = found.processes[wait.process]
        siblings = roles[process.role] if _many(process, roles) else 1
        thing = short(wait.on.split(":")[0] or "unknown", 30)
        whom = _group(found.processes[wait.for_process], roles) if wait.for_process >= 0 else thing
        sums = spent[_group(process, roles), whom, short(wait.operation)]
        sums[0] += wait.ns / 1e6
        sums[1] += wait.ns / max(1, sum(process.layers.values()) or process.life_ns) / siblings
    longest = sorted(spent.items(), key=lambda kv: -kv[1][0])
    return [
        {"who": who, "whom": whom, "operation": operation, "ms": ms, "share": share}
        for (who, whom, operation), (ms, share) in longest
        if share >= 0.001
    ][:MOST_WAITS]


def _many(process: Process, roles: dict[str, int]) -> bool:
    return bool(process.role) and roles[process.role] > 4


def _group(process: Process, roles: dict[str, int]) -> str:
    return f"{roles[process.role]} × {process.role}" if _many(process, roles) else short(process.name, 40)


def _hotspots(found: Digest, source: bool) -> list[dict[str, Any]]:
    rows = []
    for spot in [row for row in callsite_rows(found) if row["layer"] != "wait"][:MOST_HOTSPOTS]:
        place = text.shorten(text.place(spot["file"], spot["line"]) or "unknown place", 70)
        place = f"{place} in {spot['caller']}" if spot["caller"] else place
        near = spot["near_file"], spot["near_line"]
        if near != (spot["file"], spot["line"]):
            place = f"your {text.shorten(text.place(*near), 50)}, through {place}"
        row = {
            "function": short(spot["function"]),
            "place": short(place, 200),
            "operation": short(spot["operation"]),
            "ms": spot["ns"] / 1e6,
            "count": spot["count"],
        }
        if source:
            row["source"] = short(linecache.getline(spot["file"], spot["line"]).strip(), 160)
        rows.append(row)
    return rows


def _tree(run: Run, found: Digest) -> list[dict[str, Any]]:
    """Rows of the process tree with their CPU use over time; of many processes, groups and the odd ones out."""
    start, stop = run.span
    edges = np.linspace(start, max(stop, start + STRIP), STRIP + 1)
    several = len({process.host for process in found.processes}) > 1
    return [
        {
            "name": short(shown.name, 40),
            "role": short(_about(shown, several), 60),
            "exit": short(shown.exit, 40),
            "pid": shown.pid,
            "depth": min(depth, 8),
            "cpu": percent(shown.cpu_share) if shown.cpu_share else "–",
            "strip": _strip(run, shown.members if isinstance(shown, Group) else (shown,), edges),
        }
        for shown, depth in (_outline(found) if len(found.processes) > MANY else _family(found))
    ]


def _about(shown: Process | Group, several_hosts: bool) -> str:
    """What stands behind the name; that of a group holds the role already."""
    role = "" if isinstance(shown, Group) else shown.role
    return f"{role} on {shown.host}".strip() if several_hosts else role


def _outline(found: Digest) -> Iterator[tuple[Process | Group, int]]:
    """Groups, and processes by name below the group they belong to."""
    members: set[int] = set()
    for shown in outline(found.processes):
        if isinstance(shown, Group):
            members = {member.id for member in shown.members}
            yield shown, 0
        else:
            yield shown, int(shown.id in members)


def _family(found: Digest) -> Iterator[tuple[Process, int]]:
    """Processes and how deep they stand in the tree, parents before their children."""
    children: dict[int, list[Process]] = {}
    for process in found.processes:
        children.setdefault(process.parent, []).append(process)
    seen: set[int] = set()
    # The roots first; behind them everyone, in case parents form a ring (a pid that was used twice).
    waiting = [(process, 0) for process in reversed([*children.get(-1, []), *found.processes])]
    while waiting:
        process, depth = waiting.pop()
        if process.id in seen:
            continue
        seen.add(process.id)
        yield process, depth
        waiting += [(child, depth + 1) for child in reversed(children.get(process.id, []))]


def _strip(run: Run, processes: tuple[Process, ...], edges: Any) -> str:
    """Mean CPU use over the run in STRIP steps: '0' idle … ':' a core or more, ' ' not there."""
    total, alive = np.zeros(STRIP), np.zeros(STRIP)
    for process in processes:
        time, used = cpu_over_time(run.trace.processes[process.id].log.samples)
        if len(time) < 2:
            continue
        there = (edges[1:] > process.start_ns) & (edges[:-1] < process.end_ns)
        total += there * np.diff(np.interp(edges, time, used)) / np.diff(edges)
        alive += there
    if not alive.any():
        return ""
    return "".join(_shade(t / a) if a else " " for t, a in zip(total, alive, strict=True))


def _shade(share: float) -> str:
    return chr(48 + round(10 * min(1.0, share)))


def _device_strips(run: Run) -> list[dict[str, Any]]:
    """Rows of the tree for the devices: how busy each was over time."""
    used = usage(run)
    step = max(1, -(-used["span_ns"] // STRIP))
    rows = run.device_timeline(STRIP)
    busy = {(str(r["device"]), (r["start_ns"] - run.span[0]) // step): r["ns"] / step for r in rows}
    strips = {n: [_shade(busy.get((n, i), 0.0)) for i in range(STRIP)] for n in used["devices"]}
    same = {"pid": 0, "role": "", "depth": 0, "exit": "device"}
    return [
        {"name": f"GPU {n}", **same, "cpu": percent(about["busy"]), "strip": "".join(strips[n])}
        for n, about in used["devices"].items()
    ]
