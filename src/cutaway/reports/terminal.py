"""The summary in the terminal. 80 columns suffice; plain ASCII without colour when it does not go to a terminal."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table as Grid
from rich.text import Text

from . import words
from .evidence import evidence
from .gather import gather
from .model import Digest, Hotspot, Process
from .phrases import percent
from .printer import Printer, colour, grid
from .verdict import Verdict, judge

MOST_OPERATIONS, MOST_NAME = 12, 20
CPU_LAYERS = ("python", "native", "simulator", "backend", "accelerator_api", "wait")


def print_verdict(path: str | os.PathLike[str], file: TextIO) -> None:
    """What `cutaway run` ends with: header, verdict, operations, footer."""
    digest = gather(path)
    printer = Printer(file)
    printer.print(*_summary(printer, digest, judge(evidence(digest)), brief=True))
    printer.print(printer.line(f"wrote {digest.path} ({words.size(run_size(path))})", "dim"))


def print_summary(digest: Digest, file: TextIO, raw: bool = False) -> None:
    """What `cutaway show` prints."""
    printer = Printer(file)
    printer.print(*_summary(printer, digest, judge(evidence(digest)), brief=False, raw=raw))


def _summary(
    p: Printer, digest: Digest, verdict: Verdict, brief: bool, raw: bool = False
) -> list[RenderableType]:
    parts: list[RenderableType] = [*_header(p, digest), "", _verdict_box(p, verdict)]
    parts += [_operations(p, digest.folded(MOST_OPERATIONS), raw), ""]
    if not brief:
        if len(digest.processes) > 1:
            parts += [_processes(p, digest), ""]
        spots = [h for h in digest.hotspots if h.layer != "wait"][:5]
        if spots:
            parts += [_hotspots(p, spots), ""]
    return [*parts, *_footer(p, digest, verdict, raw)]


def _header(p: Printer, digest: Digest) -> list[Text]:
    roles = ", ".join(words.plural(n, role) for role, n in digest.roles().items())
    several = len(digest.processes) > 1 and set(digest.roles()) != {"process"}
    processes = words.plural(len(digest.processes), "process") + (f" ({roles})" if several else "")
    devices = ", ".join(digest.devices) or "no accelerator recorded"
    startup = f" (start-up {words.duration(digest.startup_ns)} apart)" if digest.startup_ns else ""
    return [
        p.text(f"cutaway · {digest.program} · {processes}", "bold"),
        p.text(f"{devices} · {words.duration(digest.steady_ns)} steady state{startup}", "dim"),
    ]


def _verdict_box(p: Printer, verdict: Verdict) -> Panel:
    tint = "#b5432d" if verdict.certain else "#8a8a8a"
    label = p.text(f" {verdict.label} ", f"bold white on {tint}" if not p.plain else "")
    lines = [p.text(text, "bold yellow") for text in verdict.warnings]
    lines.append(Text.assemble(label, "  " if not p.plain else "", p.text(verdict.because, "bold")))
    expected = f" ({verdict.expected})" if verdict.expected else ""
    lines.append(p.text(f"Try: {verdict.advice}{expected}"))
    if verdict.then:
        lines.append(p.text(f"Then: {verdict.then}"))
    title = p.text("verdict", tint)
    shape = box.ASCII if p.plain else box.ROUNDED
    return Panel(Group(*lines), title=title, title_align="left", border_style=tint, box=shape, padding=(0, 1))


def _operations(p: Printer, digest: Digest, raw: bool) -> Group:
    """Operations × layers of the main process, per iteration (or step, or run)."""
    by = {(o, la): ns for (o, la), ns in _cells(digest, raw).items()}
    names = list(digest.operations())
    layers = [la for la in CPU_LAYERS if any(by.get((o, la)) for o in names)]
    gpu = any(digest.device_ns.values())
    total, unit = max(1, sum(by.values())), (digest.units or 1)
    short = {"iteration": "iter", "step": "step", "run": "run"}[digest.unit]
    largest = max(total, *digest.device_ns.values()) if gpu else total
    scale, unit_name = _time_unit(largest / unit)
    digits = 1 if largest / unit / scale >= 10 else 2
    columns = [("operation", "left"), ("share", "left"), (f"{unit_name}/{short}", "right")]
    columns += [(words.SHORT_LAYER.get(la, la), "right") for la in layers] + (
        [("GPU", "right")] if gpu else []
    )
    if digest.correction:
        columns.append(("±", "right"))
    table = grid(p, columns)
    widest = min(MOST_NAME, max((len(words.operation(name)) for name in names), default=0))
    width = max(3, min(20, p.console.width - widest - 9 * (len(columns) - 2) - 7))
    for name in names:
        row = [by.get((name, la), 0) for la in layers]
        share = sum(row) / total
        cells = [
            p.text(words.clip(words.operation(name), MOST_NAME), colour(name, names)),
            _bar(p, share, width, colour(name, names)),
        ]
        cells += [
            p.text(_time(sum(row) / unit, scale, digits)),
            *(p.text(_time(v / unit, scale, digits)) for v in row),
        ]
        if gpu:
            cells.append(p.text(_time(digest.device_ns.get(name, 0) / unit, scale, digits)))
        if digest.correction:
            cells.append(p.text(_time(_error(digest, name) / unit, scale, digits)))
        table.add_row(*cells)
    sums = [sum(by.get((o, la), 0) for o in names) for la in layers]
    last = ["total", "", _time(total / unit, scale, digits), *(_time(v / unit, scale, digits) for v in sums)]
    last += [_time(sum(digest.device_ns.values()) / unit, scale, digits)] if gpu else []
    last += [_time(sum(_error(digest, o) for o in names) / unit, scale, digits)] if digest.correction else []
    table.add_row(*(p.text(c, "bold") for c in last))
    title = f"{words.operation(digest.main.name)} (pid {digest.main.pid}), not the other processes"
    head = [p.text(f"Where the time of {title}, goes:", "dim")] if len(digest.processes) > 1 else []
    return Group(*head, table)


def _cells(digest: Digest, raw: bool) -> dict[tuple[str, str], int]:
    by: dict[tuple[str, str], int] = {}
    for c in digest.cells:
        by[c.operation, c.layer] = by.get((c.operation, c.layer), 0) + (c.raw_ns if raw else c.ns)
    return by


def _error(digest: Digest, operation: str) -> float:
    return sum((c.high_ns - c.low_ns) / 2 for c in digest.cells if c.operation == operation)


def _time_unit(ns: float) -> tuple[float, str]:
    return (1e9, "s") if ns >= 20e9 else (1e6, "ms") if ns >= 1e6 else (1e3, "µs")


def _time(ns: float, scale: float, digits: int) -> str:
    return f"{ns / scale:.{digits}f}" if ns > 0 else "–"


def _bar(p: Printer, share: float, width: int, style: str) -> Text:
    full = max(1, round(share * width)) if share > 0.001 else 0
    return Text.assemble(p.text("█" * full, style), f" {percent(share)}" if full else percent(share))


def _processes(p: Printer, digest: Digest, most: int = 8) -> Group:
    table = process_grid(p, digest.processes[:most])
    more = len(digest.processes) - most
    rest = [p.line(f"… {more} more: cutaway show {digest.path} --by process", "dim")] if more > 0 else []
    return Group(table, *rest)


def process_grid(p: Printer, processes: tuple[Process, ...]) -> Grid:
    """A line for each process."""
    titles = ("process", "pid", "role", "alive", "CPU", "waits", "mostly", "ended")
    table = grid(
        p, [(title, "right" if title in ("pid", "alive", "CPU", "waits") else "left") for title in titles]
    )
    for process in processes:
        named = {k: v for k, v in process.operations.items() if k}
        mostly = max(named, key=lambda k: named[k]) if named else ""
        cpu = percent(process.cpu_ns / process.life_ns) if process.life_ns and process.cpu_ns else "–"
        cells = [
            words.clip(process.name, 20),
            str(process.pid),
            words.clip(process.role or "–", 12),
            words.duration(process.life_ns),
            cpu,
        ]
        cells += [percent(process.wait_share), words.clip(mostly or "–", 15), process.exit or "–"]
        table.add_row(*(p.text(c) for c in cells))
    return table


def _hotspots(p: Printer, spots: list[Hotspot]) -> Grid:
    titles = ("hotspot", "called from", "operation", "time", "calls")
    table = grid(p, [(title, "right" if title in ("time", "calls") else "left") for title in titles])
    for spot in spots:
        where = (spot.your_file, spot.your_line) if spot.your_file else (spot.file, spot.line)
        place = words.shorten(words.place(*where) or "–", 24)
        cells = [words.shorten(spot.function, 18), place, words.clip(words.operation(spot.operation), 15)]
        table.add_row(*(p.text(c) for c in (*cells, words.duration(spot.ns), str(spot.count))))
    return table


def _footer(p: Printer, digest: Digest, verdict: Verdict, raw: bool) -> list[Text]:
    lines = [p.text(" · ".join(throughput(digest)))] if throughput(digest) else []
    lines += [p.text(note, "yellow") for note in digest.notes]
    lines += [p.text(line, "dim") for line in honesty(digest, raw)]
    lines.append(p.line(f"why:  cutaway show {digest.path} --by {verdict.look}", "dim"))
    lines.append(p.line(f"next: cutaway report {digest.path}", "dim"))
    return lines


def throughput(digest: Digest) -> list[str]:
    """Steps, power, device and cores in a line."""
    machine, parts = digest.machine, []
    if digest.steps_per_second:
        parts.append(f"{words.number(digest.steps_per_second)} steps/s")
    if digest.tokens_per_second:
        parts.append(f"{words.number(digest.tokens_per_second)} tokens/s")
    if machine.watts:
        parts.append(f"{words.number(machine.watts)} W")
        if digest.steps_per_second:
            parts.append(f"{words.number(digest.steps_per_second / machine.watts)} steps/J")
    if machine.device_busy is not None:
        smi = (
            f" (nvidia-smi would say {percent(machine.nvidia_smi)})" if machine.nvidia_smi is not None else ""
        )
        parts.append(f"GPU busy {percent(machine.device_busy)}{smi}")
    if machine.cores_busy is not None:
        parts.append(f"CPU {machine.cores_busy:.1f} of {words.plural(machine.cores, 'core')}")
    if machine.runqueue_share is not None:
        parts.append(f"threads wait {percent(machine.runqueue_share)} for a core")
    return parts


def honesty(digest: Digest, raw: bool = False) -> list[str]:
    """What was done to the figures, and what is missing from them."""
    if raw:
        fix = "raw figures: the recorder's own cost is in them"
    elif digest.correction:
        c = digest.correction
        fix = f"overhead removed: {c.removed * 100:.1f} ± {c.error * 100:.1f} % of the recorded time"
        fix += f" ({words.plural(c.units, 'unit')} left out to measure it)" if c.units else ""
        fix += f"; {c.short * 100:.1f} % more was to be removed than there was" if c.short >= 0.0005 else ""
    else:
        fix = "not corrected: the recorder's own cost is in these figures"
    losses = ", ".join(f"{n} {what}" for what, n in digest.losses.items() if n)
    rest = ", and all after recording stopped" if digest.stopped else ""
    versions = ", ".join(f"{k} {v}" for k, v in list(digest.versions.items())[:4])
    python = f"python {digest.python}" if digest.python else ""
    beside = (
        f" · recorder's threads: {percent(digest.correction.background)} of a core"
        if digest.correction
        else ""
    )
    return [
        fix,
        f"{losses or '0 events'} lost of {digest.events} recorded{rest}{beside}",
        " · ".join(filter(None, (f"clock {digest.clock}", digest.source, python, versions))),
    ]


def run_size(path: str | os.PathLike[str]) -> int:
    """Bytes of a run on disk."""
    return sum(f.stat().st_size for f in Path(path).rglob("*") if f.is_file())
