"""The page of a run: what its script draws. Every number is final here; the script only places it."""

from __future__ import annotations

import linecache
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from cutaway.analysis import Run
from cutaway.analysis.processes import cpu_over_time
from cutaway.analysis.table import totals
from cutaway.analysis.utilisation import usage
from cutaway.reports import text
from cutaway.reports.course import counted_in
from cutaway.reports.digest import MANY, Digest, Group, Process, outline, workforce
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
    lanes, few = build_lanes(run, found), found.folded(MOST_OPERATIONS)
    verdict, unit = found.verdict, found.unit
    names = list(few.operations())
    names += sorted({operation for operation, _ in (lanes or {}).get("planes", [])} - set(names))
    said = {key: getattr(verdict, key) for key in ("label", "because", "advice", "expected", "then")}
    what = {"run": "the whole run", "iteration": "an iteration"}.get(unit, f"a {unit}")
    whose = f" of {found.main.name} (pid {found.main.pid})" if len(found.processes) > 1 else ""
    per = f"(per {unit}, {'corrected' if found.correction else 'not corrected'})"
    return {
        "title": short(f"Cutaway report — {found.title}"),
        "meta": short(" · ".join(_meta(found)), 300),
        "verdict": {
            **{key: short(sentence, 400) for key, sentence in said.items()},
            "certain": verdict.certain,
            "warnings": [short(warning, 400) for warning in verdict.warnings],
        },
        "tiles": _tiles(found),
        "unit": unit,
        "total": found.total_ns / found.units / 1e6,
        "colours": {short(name): colour(name, names) for name in names},
        "bars_title": short(f"Where {what}{whose} goes: operation × layer of the stack {per}", 200),
        "bars": _bars(few),
        "stretches": _stretches(few),
        "lanes_title": f"What {_working(found)} did over time (drag to zoom)",
        "lanes": lanes,
        "flame": flame_data(run.steady()),
        "waits": _waits(found),
        "hotspots": _hotspots(found, source),
        "no_hotspots": _no_hotspots(found),
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
        each = text.duration(found.total_ns / found.units)
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


def _bars(found: Digest) -> list[dict[str, Any]]:
    unit = found.units * 1e6
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
    names, what = list(found.operations()), counted_in(found.stretches)
    return [
        {
            "from": s.start_ns / 1e9,
            "to": s.end_ns / 1e9,
            "rate": s.rate(what),
            "what": what,
            "shares": [[short(name), s.shares[name]] for name in names if s.shares.get(name)],
        }
        for s in found.stretches
    ]


def _waits(found: Digest) -> list[dict[str, Any]]:
    """Waits by who and whom; many siblings waiting alike become one row."""
    roles = found.roles()

    def siblings(process: Process) -> int:
        return roles[process.role] if process.role and roles[process.role] > 4 else 1

    def name(process: Process) -> str:
        count = siblings(process)
        return f"{count} × {process.role}" if count > 1 else text.middle(short(process.name), 40)

    spent: defaultdict[tuple[str, str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for wait in found.waits:
        process = found.processes[wait.process]
        thing = short(wait.on.split(":")[0] or "unknown", 30)
        whom = name(found.processes[wait.for_process]) if wait.for_process >= 0 else thing
        sums = spent[name(process), whom, short(wait.operation)]
        sums[0] += wait.ns / 1e6
        sums[1] += wait.ns / max(1, sum(process.layers.values()) or process.life_ns) / siblings(process)
    longest = sorted(spent.items(), key=lambda kv: -kv[1][0])
    keys = ("who", "whom", "operation", "ms", "share")
    rows = [dict(zip(keys, (*names, *sums), strict=True)) for names, sums in longest if sums[1] >= 0.001]
    return rows[:MOST_WAITS]


def _hotspots(found: Digest, source: bool) -> list[dict[str, Any]]:
    rows = []
    for spot in [row for row in callsite_rows(found) if row["layer"] != "wait"][:MOST_HOTSPOTS]:
        place = text.shorten(text.place(spot["file"], spot["line"]) or "unknown place", 70)
        place = f"{place} in {spot['caller']}" if spot["caller"] else place
        near = spot["near_file"], spot["near_line"]
        if near != (spot["file"], spot["line"]):
            place = f"your {text.shorten(text.place(*near), 50)}, through {place}"
        row = {"function": short(spot["function"]), "place": short(place, 200)}
        row |= {"operation": short(spot["operation"]), "ms": spot["ns"] / 1e6, "count": spot["count"]}
        if source:
            row["source"] = short(linecache.getline(spot["file"], spot["line"]).strip(), 160)
        rows.append(row)
    return rows


def _no_hotspots(found: Digest) -> str:
    """What stands in the place of an empty table."""
    if not found.hotspots:
        return "No call sites were recorded."
    sites = text.plural(len(found.hotspots), "call site")
    return f"All {sites} recorded are waits: see who waits for whom."


def _working(found: Digest) -> str:
    """How many processes have lanes; helpers have none."""
    working, helpers = workforce(found.processes)
    beside = f" (without {text.plural(len(helpers), 'helper')})" if helpers else ""
    return text.plural(len(working), "process") + beside


def _tree(run: Run, found: Digest) -> Iterator[dict[str, Any]]:
    """Rows of the process tree with their CPU use over time; of many processes, groups and the odd ones out."""
    start, stop = run.span
    edges = np.linspace(start, max(stop, start + STRIP), STRIP + 1)
    several = len({process.host for process in found.processes}) > 1
    helpers = workforce(found.processes)[1]
    rows: Iterable[tuple[Process | Group, int]] = [
        *((process, depth) for process, depth in _family(found) if process not in helpers),
        *([(Group.of(helpers), 1)] if helpers else []),
    ]
    if len(found.processes) > MANY:  # the odd ones out below their group
        few = list(outline(found.processes))
        members = [member for shown in few if isinstance(shown, Group) for member in shown.members]
        rows = ((shown, int(shown in members)) for shown in few)
    for shown, depth in rows:
        role = "" if isinstance(shown, Group) else shown.role  # the name of a group holds it already
        yield {
            "name": text.middle(short(shown.name), 40),
            "role": short(f"{role} on {shown.host}".strip() if several else role, 60),
            "exit": short(shown.exit, 40),
            "pid": shown.pid,
            "depth": min(depth, 8),
            "cpu": percent(shown.cpu_share) if shown.cpu_share else "–",
            "strip": _strip(run, shown.members if isinstance(shown, Group) else (shown,), edges),
        }


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
        if process.id not in seen:
            seen.add(process.id)
            yield process, depth
            waiting += [(child, depth + 1) for child in reversed(children.get(process.id, []))]


def _strip(run: Run, processes: tuple[Process, ...], edges: Any) -> str:
    """Mean CPU use over the run in STRIP steps; empty if nothing was sampled."""
    total, alive = np.zeros(STRIP), np.zeros(STRIP)
    for process in processes:
        time, used = cpu_over_time(run.trace.processes[process.id].log.samples)
        if len(time) > 1:
            there = (edges[1:] > process.start_ns) & (edges[:-1] < process.end_ns)
            total += there * np.diff(np.interp(edges, time, used)) / np.diff(edges)
            alive += there
    shades = (_shade(t / a) if a else " " for t, a in zip(total, alive, strict=True))
    return "".join(shades) if alive.any() else ""


def _shade(share: float) -> str:
    """A sign of a strip: '0' idle … ':' all of it. A blank stands for nobody there."""
    return chr(48 + round(10 * min(1.0, share)))


def _device_strips(run: Run) -> Iterator[dict[str, Any]]:
    """Rows of the tree for the devices: how busy each was over time."""
    used = usage(run)
    step = max(1, -(-used["span_ns"] // STRIP))
    rows = run.device_timeline(STRIP)
    busy = {(str(r["device"]), (r["start_ns"] - run.span[0]) // step): r["ns"] / step for r in rows}
    same = {"pid": 0, "role": "", "depth": 0, "exit": "device"}
    for number, about in used["devices"].items():
        strip = "".join(_shade(busy.get((number, i), 0.0)) for i in range(STRIP))
        yield {"name": f"GPU {number}", **same, "cpu": percent(about["busy"]), "strip": strip}
