"""The summary in the terminal. 80 columns suffice; plain ASCII without colour when it does not go to a terminal."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, TextIO

from rich import box
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from cutaway.analysis.table import totals
from cutaway.drawing.colours import colour
from cutaway.vocabulary import THREAD_LAYERS

from . import rollouts, text
from .columns import as_grid
from .digest import Digest, Verdict
from .digests import digest_at
from .groups import MANY, workforce
from .printer import Printer, grid
from .rows import brief_rows, callsite_rows, group_rows
from .tables import BRIEF
from .text import percent
from .threads import beside

MOST_OPERATIONS = 12
MOST_NAME = 20
MOST_GROUPS = 20
MOST_CALLSITES = 5
LEAST_NAME, LEAST_BAR = 9, len("### 100 %  ")  # where the terminal is narrow


def print_verdict(path: str | os.PathLike[str], file: TextIO) -> None:
    """What `cutaway run` ends with: header, verdict, operations, footer."""
    digest = digest_at(path)
    p = Printer(file)
    size = sum(f.stat().st_blocks * 512 for f in Path(path).rglob("*") if f.is_file())
    wrote = p.line(f"wrote {digest.program.path} ({text.size(size)})", "dim")
    agent = not p.console.is_terminal
    p.print(*_beginning(p, digest, raw=False), *_footer(p, digest, False, agent))
    p.print(wrote)


def print_summary(digest: Digest, file: TextIO, raw: bool = False) -> None:
    """What `cutaway show` prints: also processes, or groups and the odd ones out of many, and call sites."""
    p = Printer(file)
    parts = _beginning(p, digest, raw)
    if len(digest.processes) > MANY:
        rows = group_rows(digest)
        if len(rows) > MOST_GROUPS:
            more = f", {len(rows) - MOST_GROUPS} more rows"
        else:
            more = ""
        every = f"all: cutaway show {digest.program.path} --by process"
        about = f"medians of groups, the odd ones out below{more}; {every}"
        parts += [
            as_grid(p, BRIEF["process"], rows[:MOST_GROUPS]),
            p.line(about, "dim"),
            "",
        ]
    elif len(digest.processes) > 1:
        parts += [as_grid(p, BRIEF["process"], brief_rows(digest)), ""]
    spots = [row for row in callsite_rows(digest) if row["layer"] != "wait"]
    if spots:
        parts += [as_grid(p, BRIEF["callsite"], spots[:MOST_CALLSITES]), ""]
    p.print(*parts, *_footer(p, digest, raw))


def _beginning(p: Printer, digest: Digest, raw: bool) -> list[RenderableType]:
    """Header, verdict and operations."""
    processes = who_takes_part(digest)
    devices = ", ".join(digest.program.devices) or "no accelerator recorded"
    if digest.pace.startup_ns:
        around = [f"after {text.duration(digest.pace.startup_ns)} of start-up"]
    else:
        around = []
    if digest.pace.shutdown_ns > digest.pace.steady_ns // 100:
        around.append(f"before {text.duration(digest.pace.shutdown_ns)} of shut-down")
    if digest.pace.unrecorded_ns > digest.pace.steady_ns // 100:
        around.append(f"{text.duration(digest.pace.unrecorded_ns)} not recorded")
    steady = f"{text.duration(digest.pace.steady_ns)} steady state"
    steady += f" ({', '.join(around)})" if around else ""
    return [
        p.text(f"cutaway · {digest.program.name} · {processes}", "bold"),
        p.text(f"{devices} · {steady}", "dim"),
        "",
        _verdict_box(p, digest.verdict),
        *_operations(p, digest.folded(MOST_OPERATIONS), raw),
        "",
    ]


def who_takes_part(digest: Digest) -> str:
    """How many processes there are, by role; helpers stand apart."""
    working, helpers = workforce(digest.processes)
    roles = totals((process.role, 1) for process in working)
    others = roles.pop("", 0)
    parts = [text.plural(n, role) for role, n in roles.items()]
    if others and parts:
        parts.append(text.plural(others, "other"))
    if parts and len(working) > 1:
        listed = f" ({', '.join(parts)})"
    else:
        listed = ""
    if helpers:
        beside = f" and {text.plural(len(helpers), 'helper')}"
    else:
        beside = ""
    return text.plural(len(working), "process") + listed + beside


def _verdict_box(p: Printer, verdict: Verdict) -> Panel:
    tint = "#b5432d" if verdict.certain else "#8a8a8a"
    label = p.text(f" {verdict.label} ", "" if p.plain else f"bold white on {tint}")
    lines = [p.text(warning, "bold yellow") for warning in verdict.warnings]
    lines.append(
        Text.assemble(label, "" if p.plain else "  ", p.text(verdict.because, "bold"))
    )
    if verdict.expected:
        expected = f" ({verdict.expected})"
    else:
        expected = ""
    lines.append(p.text(f"Try: {verdict.advice}{expected}"))
    lines += [p.text(f"Then: {verdict.then}")] if verdict.then else []
    title = p.text("verdict", tint)
    if p.plain:
        shape = box.ASCII
    else:
        shape = box.ROUNDED
    return Panel(
        Group(*lines),
        title=title,
        title_align="left",
        border_style=tint,
        box=shape,
        padding=(0, 1),
    )


class _Scale(NamedTuple):
    """How times of this size are written: nanoseconds of a unit, its sign, and digits."""

    ns: float
    sign: str
    digits: int

    def write(self, ns: float) -> str:
        if ns > 0:
            return f"{ns / self.ns:.{self.digits}f}"
        return "–"


def _scale(largest: float) -> _Scale:
    """For times up to this one."""
    if largest >= 20e9:
        ns = 1e9
        sign = "s"
    elif largest >= 1e6:
        ns = 1e6
        sign = "ms"
    else:
        ns = 1e3
        sign = "µs"
    return _Scale(ns, sign, digits=1 if largest / ns >= 10 else 2)


def _operations(p: Printer, digest: Digest, raw: bool) -> list[RenderableType]:
    """Operations × layers of the main process, per iteration (or step, or run)."""
    columns = _spent(digest, raw)
    own, *_ = columns.values()
    total = max(1, sum(own.values()))
    units = digest.pace.units
    scale = _scale(max([total, *digest.device_ns.values()]) / units)

    names = list(digest.operations())
    body = []
    for name in names:
        found = [column.get(name, 0) / units for column in columns.values()]
        body.append(list(map(scale.write, found)))
    last = [scale.write(sum(column.values()) / units) for column in columns.values()]
    if digest.pace.unit == "iteration":
        per = "iter"
    else:
        per = digest.pace.unit
    heads = [f"{scale.sign}/{per}", *list(columns)[1:]]

    widths = []
    for column in zip(heads, *body, last, strict=True):
        widths.append(max(map(len, column)) + 1)
    longest = max(len(text.operation(name)) for name in (*names, "operation"))
    room = p.console.width - sum(widths)
    widest = min(MOST_NAME, longest, max(LEAST_NAME, room - LEAST_BAR))
    width = max(0, min(20, room - widest - len(" 100 %  ")))
    least = [widest, 0, *(width - 1 for width in widths)]
    left = ["operation", "share"]
    table = grid(p, [*left, *heads], left=left, widths=least)
    for name, figures in zip(names, body, strict=True):
        tint = colour(name, names)
        title = p.text(text.clip(text.operation(name), widest), tint)
        bar = _bar(p, own.get(name, 0) / total, width, tint)
        table.add_row(title, bar, *map(p.text, figures))
    table.add_row(*(p.text(c, "bold") for c in ("total", "", *last)))
    return [*_whose(p, digest), table]


def _spent(digest: Digest, raw: bool) -> dict[str, Mapping[str, float]]:
    """Nanoseconds by operation in each column of the table: in all, then by layer."""
    cells = digest.spent.cells
    spent = [(c.operation, c.layer, c.raw_ns if raw else c.ns) for c in cells]
    columns: dict[str, Mapping[str, float]] = {}
    columns[""] = totals((name, ns) for name, _, ns in spent)
    for layer in THREAD_LAYERS:
        found = totals((name, ns) for name, where, ns in spent if where == layer)
        if any(found.values()):
            columns[text.layer(layer)] = found
    if any(digest.device_ns.values()):
        columns["GPU"] = digest.device_ns
    if digest.trust.correction:
        columns["±"] = totals((c.operation, (c.high_ns - c.low_ns) / 2) for c in cells)
    return columns


def _bar(p: Printer, share: float, width: int, tint: str) -> Text:
    """A bar and its share in figures; what is not nothing has a piece of bar."""
    full = 0
    if share > 0.001:
        full = min(width, max(1, round(share * width)))
    gap = " " if full else ""
    return Text.assemble(p.text("█" * full, tint), gap, percent(share))


def _whose(p: Printer, digest: Digest) -> list[Text]:
    """Whose time the table shows, where others work beside it."""
    heading = []
    if len(digest.processes) > 1:
        who = f"{text.operation(digest.main.name)} (pid {digest.main.pid})"
        head = f"Where {who} spends its time, without the other processes:"
        heading.append(p.text(head, "dim"))
    if others := beside(digest.spent.threads):
        heading.append(p.text(others, "dim"))
    return heading


def _footer(p: Printer, digest: Digest, raw: bool, agent: bool = False) -> list[Text]:
    """Rates, notes and what to run now; who reads a pipe is sent to the brief."""
    rates = " · ".join(_throughput(digest))
    made = rollouts.sentence(digest.rollouts)
    path = shlex.quote(digest.program.path)
    if agent:
        after = f"cutaway show {path} --brief"
    else:
        after = f"cutaway report {path}"
    return [
        *([p.text(rates)] if rates else []),
        *([p.text(f"rollouts: {made}")] if made else []),
        *(p.text(note, "yellow") for note in digest.trust.notes),
        *(p.text(line, "dim") for line in caveats(digest, raw)),
        p.line(f"why:  cutaway show {path} --by {digest.verdict.look}", "dim"),
        p.line(f"next: {after}", "dim"),
    ]


def _throughput(digest: Digest) -> list[str]:
    """Steps, power, device and cores, a phrase each."""
    machine = digest.machine
    parts = []
    if digest.pace.steps_per_second:
        parts.append(f"{text.number(digest.pace.steps_per_second)} steps/s")
    if digest.pace.tokens_per_second:
        parts.append(f"{text.number(digest.pace.tokens_per_second)} tokens/s")
    if machine.watts:
        parts.append(f"{text.number(machine.watts)} W")
        if digest.pace.steps_per_second:
            parts.append(
                f"{text.number(digest.pace.steps_per_second / machine.watts)} steps/J"
            )
    if machine.device_busy is not None:
        smi = machine.nvidia_smi
        if smi is not None:
            seen = f" (nvidia-smi would say {percent(smi)})"
        else:
            seen = ""
        parts.append(f"GPU busy {percent(machine.device_busy)}{seen}")
    if machine.cores_busy is not None:
        parts.append(
            f"CPU {machine.cores_busy:.1f} of {text.plural(machine.cores, 'core')}"
        )
    if machine.runqueue_share is not None:
        parts.append(f"threads wait {percent(machine.runqueue_share)} for a core")
    return parts


def caveats(digest: Digest, raw: bool = False) -> list[str]:
    """What was done to the figures, and what is missing from them."""
    c = digest.trust.correction
    if raw:
        fix = "raw figures: they include the recorder's own cost"
    elif c:
        fix = f"overhead removed: {c.removed * 100:.1f} ± {c.error * 100:.1f} % of the recorded time"
        fix += (
            f" ({text.plural(c.units, 'unit')} skipped to measure it)"
            if c.units
            else ""
        )
        fix += (
            f"; {c.short * 100:.1f} % could not be removed" if c.short >= 0.0005 else ""
        )
    else:
        fix = "not corrected: these figures include the recorder's own cost"
    losses = (
        ", ".join(f"{n} {what}" for what, n in digest.trust.losses.items() if n)
        or "0 events"
    )
    if digest.ending.stopped:
        rest = ", and everything after recording stopped"
    else:
        rest = ""
    if c:
        beside = f" · recorder's threads: {percent(c.background)} of a core"
    else:
        beside = ""
    if digest.program.python:
        python = f"python {digest.program.python}"
    else:
        python = ""
    versions = ", ".join(
        f"{k} {v}" for k, v in list(digest.program.versions.items())[:4]
    )
    made_by = (
        part
        for part in (
            f"clock {digest.program.clock}",
            digest.program.source,
            python,
            versions,
        )
        if part
    )
    return [
        fix,
        f"{losses} lost of {digest.trust.events} recorded{rest}{beside}",
        " · ".join(made_by),
    ]
