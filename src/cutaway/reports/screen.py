"""Draws the live view and obeys its keys. Rich does the drawing; the keys need a terminal and nothing else."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TextIO, TypeVar

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table as Grid
from rich.text import Text

from cutaway.analysis.table import totals
from cutaway.analysis.utilisation import nvidia
from cutaway.drawing.colours import colour
from cutaway.vocabulary import THREAD_LAYERS

from . import text
from .live import WINDOW_S, LiveProcess, LiveRun
from .printer import Printer, grid
from .text import percent

T = TypeVar("T")
SPARKS = "▁▂▃▄▅▆▇█"
PLAIN_SPARKS = "_.-=+*#@"
IDLE = "#4a4a4a"
REFRESH_S = 0.5
NAME = 16  # places of a process's name in 80 columns
WIDEST = 1000
KEYS = "q quit  s sort  o operation  p pause  up/down choose  Enter process  Esc back"
ESCAPES = {
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1b": "back",
}


@dataclass
class View:
    """What the keys have chosen."""

    sort: str = "start"
    operation: str | None = None  # only this one is coloured
    chosen: int = 0
    inside: bool = False
    paused: bool = False
    quit: bool = False

    def press(self, key: str, run: LiveRun) -> None:
        """Obey a key."""
        if key == "q":
            self.quit = True
        elif key == "p":
            self.paused = not self.paused
        elif key == "s":
            self.sort = _next(list(SORTS), self.sort)
        elif key == "o":
            self.operation = _next([None, *run.operations()], self.operation)
        elif key in ("up", "k"):
            self.chosen = max(0, self.chosen - 1)
        elif key in ("down", "j"):
            self.chosen = min(max(0, len(run.working()) - 1), self.chosen + 1)
        elif key in ("\r", "\n"):
            self.inside = True
        elif key in ("back", "\x7f"):
            self.inside = False


def _next(choices: list[T], now: T) -> T:
    if now in choices:
        return choices[(choices.index(now) + 1) % len(choices)]
    return choices[0]


def _wait_share(process: LiveProcess) -> float:
    spent = process.totals()
    waited = sum(ns for (_, layer), ns in spent.items() if layer == "wait")
    return waited / (sum(spent.values()) or 1.0)


SORTS: dict[str, Callable[[LiveProcess], Any]] = {
    "start": lambda p: (int(p.trace.log.process.get("t") or 0), p.trace.pid),
    "CPU": lambda p: -(0.0 if p.ended else p.cpu() or 0.0),
    "memory": lambda p: -(p.resident() or 0),
    "waits": lambda p: -_wait_share(p),
    "name": lambda p: p.name,
}
"""Orders of the processes that the key s goes through."""


def ordered(run: LiveRun, view: View) -> list[LiveProcess]:
    """The processes in the order chosen."""
    return sorted(run.working(), key=SORTS[view.sort])


def draw(
    run: LiveRun, view: View, p: Printer, height: int, wait: bool = False
) -> Group:
    """One picture of the run, `height` lines at most; with `wait` not before there is a verdict."""
    processes = ordered(run, view)
    room = max(3, height - 14)
    if view.inside and processes:
        shown: RenderableType = _inside(
            processes[min(view.chosen, len(processes) - 1)], p, room
        )
    else:
        shown = _lanes(run, view, p, processes, room)
    above = [*_head(run, view, p), *_verdict(run, p, wait)]
    keys = p.text(KEYS, "reverse")
    return Group(*above, "", shown, "", _legend(run, p), keys)


def _legend(run: LiveRun, p: Printer) -> Text:
    """Which colour, or letter, is which operation."""
    legend = Text(no_wrap=True)
    names = run.operations()
    for name in names:
        sign = name[0] if p.plain else "█"
        legend.append_text(p.text(f"{sign} ", colour(name, names)))
        legend.append_text(p.text(f"{name}  "))
    sign = "." if p.plain else "█"
    legend.append_text(p.text(f"{sign} ", IDLE))
    legend.append_text(p.text("waiting or idle"))
    legend.truncate(p.console.width, overflow="crop")
    return legend


def _head(run: LiveRun, view: View, p: Printer) -> list[Text]:
    """The run, its pace, and its devices: a line each."""
    lines = [_title(run, view, p), _pace(run, p)]
    if devices := _devices(run):
        lines.append(p.text(" · ".join(devices)))
    for line in lines:
        line.truncate(p.console.width, overflow="crop")
        line.no_wrap = True
    return lines


def _title(run: LiveRun, view: View, p: Printer) -> Text:
    processes = text.plural(len(run.working()), "process")
    helpers = len(run.processes) - len(run.working())
    if helpers:
        processes += f" and {text.plural(helpers, 'helper')}"
    about = f"{processes} · up {text.duration(run.up_ns)} · {_state(run, view)}"
    return p.text(f"cutaway top  {run.path.name} · {about}", "bold")


def _state(run: LiveRun, view: View) -> str:
    if view.paused:
        return "paused"
    if run.finished:
        return "finished"
    return f"window {WINDOW_S} s"


def _pace(run: LiveRun, p: Printer) -> Text:
    """Steps a second, now and as a sparkline."""
    rate = run.steps_per_second()
    if rate is None:
        shown = "–"
    else:
        shown = text.number(rate)
    line = p.text(f"steps/s  {shown} ", "bold")
    line.append_text(p.text(_spark(run, p), colour("backpropagation", [])))
    main = run.main()
    if main is not None and main.iterations:
        line.append_text(p.text(f"  iterations {main.iterations}"))
    return line


def _spark(run: LiveRun, p: Printer) -> str:
    most = max(run.rates, default=0.0)
    if most <= 0:
        return ""
    signs = PLAIN_SPARKS if p.plain else SPARKS
    heights = (min(7, int(rate / most * 7.99)) for rate in run.rates)
    return "".join(signs[height] for height in heights)


def _verdict(run: LiveRun, p: Printer, wait: bool) -> list[Text]:
    """What `cutaway show` says about the run so far."""
    verdict = run.judge.look(run.finished, wait)
    if verdict is None:
        return [p.text("NO VERDICT yet: reading the run", "dim")]
    label = p.text(
        f" {verdict.label} ", "bold white on #b5432d" if verdict.certain else "dim"
    )
    label.append_text(
        p.text(f" {verdict.because}", "bold" if verdict.certain else "dim")
    )
    warnings = (p.text(warning, "bold yellow") for warning in verdict.warnings)
    return [*warnings, label, p.text(f"Try: {verdict.advice}")]


def _devices(run: LiveRun) -> list[str]:
    """How busy each device is, what nvidia-smi shows for it, and the power drawn; what is not known is left out."""
    busy, (meters, power) = run.gpu(*run.processes.values()), run.meters()
    out = []
    for number in sorted({*busy, *meters}):
        meter = meters.get(number, {})
        parts = [f"GPU {number}"] + (
            [f"busy {percent(busy[number][0])}"] if number in busy else []
        )
        if isinstance(meter.get("utilisation"), (int, float)):
            parts.append(f"nvidia-smi {meter['utilisation']:.0f} %")
        elif number in busy and nvidia(run.trace):
            parts.append(f"(nvidia-smi would say {percent(busy[number][1])})")
        if isinstance(meter.get("power_mw"), (int, float)):
            parts.append(f"{meter['power_mw'] / 1000:.0f} W")
        out.append(" ".join(parts))
    cpu = power.get("cpu")
    if isinstance(cpu, (int, float)):
        return [*out, f"CPU {cpu:.0f} W"]
    return out


def _lanes(
    run: LiveRun, view: View, p: Printer, processes: list[LiveProcess], room: int
) -> Grid:
    names = run.operations()
    gpu = any(len(process.spans) for process in processes)
    longest = max((len(process.name) for process in processes), default=0)
    name = max(
        NAME, min(longest, NAME + (p.console.width - 80) // 4)
    )  # a wide terminal has room for names
    sizes = [process.resident() for process in processes]
    memory = any(size is not None for size in sizes)
    taken = 52 + (7 if gpu else 0) + (10 if memory else 0)
    width = max(10, p.console.width - taken - (name - NAME))
    table = Grid(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    columns = {
        f"process ({view.sort})": name,
        "pid": 8,
        "now": 15,
        f"last {WINDOW_S} s": width,
        **({"memory": 9} if memory else {}),
        "CPU": 6,
        **({"GPU": 6} if gpu else {}),
    }
    for title, wide in columns.items():
        side: Literal["left", "right"] = (
            "right" if title in ("pid", "CPU", "memory", "GPU") else "left"
        )
        table.add_column(p.text(title), width=wide, no_wrap=True, justify=side)
    top = max(0, min(view.chosen - room // 2, len(processes) - room))
    for i, process in enumerate(processes[top : top + room], top):
        if process.ended:
            cpu = None
        else:
            cpu = process.cpu()
        has = sizes[i]
        now = process.now()
        if now is None:
            doing = "–"
        elif now[1] == "wait":
            doing = "wait"
        else:
            doing = text.operation(now[0])
        used = run.gpu(process) if gpu else {}
        row = [
            p.text(
                _short(process.name, name, p), "reverse" if i == view.chosen else ""
            ),
            p.text(str(process.trace.pid)),
            p.text(
                "ended" if process.ended else doing[:15],
                colour(now[0], names) if now else "dim",
            ),
            _bar(process, view, p, width, names),
            *([p.text("–" if has is None else text.size(has))] if memory else []),
            p.text("–" if cpu is None else percent(cpu)),
            p.text(percent(sum(busy for busy, _ in used.values())) if used else "–"),
        ]
        table.add_row(*row[: len(table.columns)])
    return table


def _short(name: str, most: int, p: Printer) -> str:
    """A name that fits; its number stays. An ellipsis takes three places in ASCII."""
    return text.middle(name, most if len(name) <= most or not p.plain else most - 2)


def _bar(
    process: LiveProcess, view: View, p: Printer, width: int, names: list[str]
) -> Text:
    """Shares of the window: operations in colour (or by their first letter), waiting and nothing in grey."""
    spent = process.totals()
    bar = Text()
    used = 0
    total = sum(spent.values())
    working = totals(
        (operation, ns) for (operation, layer), ns in spent.items() if layer != "wait"
    )
    for name in [n for n in names if n in working and view.operation in (None, n)]:
        first = round(used / total * width)
        used = used + working[name]
        sign = name[0] if p.plain else "█"
        bar.append_text(
            p.text(sign * (round(used / total * width) - first), colour(name, names))
        )
    return bar.append_text(p.text(("." if p.plain else "█") * (width - len(bar)), IDLE))


def _inside(process: LiveProcess, p: Printer, room: int) -> Group:
    """Operations × layers of one process in the window."""
    spent = process.totals()
    total = sum(spent.values()) or 1.0
    used = {layer for _, layer in spent}
    layers = [layer for layer in THREAD_LAYERS if layer in used]
    sums = totals((operation, ns) for (operation, _), ns in spent.items())
    table = grid(
        p, ["operation", "share", *map(text.layer, layers)], left=["operation"]
    )
    for name in sorted(sums, key=lambda n: -sums[n])[: room - 2]:
        parts = (spent.get((name, layer)) for layer in layers)
        shares = (
            percent(sums[name] / total),
            *("–" if ns is None else percent(ns / total) for ns in parts),
        )
        table.add_row(
            p.text(text.operation(name), colour(name, list(sums))), *map(p.text, shares)
        )
    if process.role:
        role = f", {process.role}"
    else:
        role = ""
    return Group(
        p.text(
            f"{process.name} (pid {process.trace.pid}{role}), last {WINDOW_S} s", "bold"
        ),
        table,
    )


def read_keys(descriptor: int, seconds: float) -> list[str]:
    """Keys pressed within a time; arrows and Escape by name."""
    if not select.select([descriptor], [], [], seconds)[0]:
        return []
    data = os.read(descriptor, 256)
    if not data:
        return ["q"]  # the terminal has gone
    keys: list[str] = []
    while data:
        escape = next((e for e in ESCAPES if data.startswith(e)), None)
        keys.append(ESCAPES[escape] if escape else chr(data[0]))
        data = data[len(escape) if escape else 1 :]
    return keys


def watch(run: LiveRun) -> None:
    """Show the run until q is pressed."""
    p = Printer(sys.stdout, WIDEST)
    view = View()
    looked = 0.0
    keyboard = sys.stdin.fileno()
    before = termios.tcgetattr(keyboard)
    try:  # the terminal hands over single keys, and is put back whatever happens
        tty.setcbreak(keyboard)
        with Live(console=p.console, screen=True, auto_refresh=False) as live:
            while not view.quit:
                if not view.paused and time.monotonic() - looked >= REFRESH_S:
                    run.refresh()
                    looked = time.monotonic()
                p.console.width = live.console.size.width
                live.update(draw(run, view, p, live.console.size.height), refresh=True)
                for key in read_keys(keyboard, REFRESH_S):
                    view.press(key, run)
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


def print_once(run: LiveRun, file: TextIO) -> None:
    """One picture, for pipes and scripts."""
    run.refresh()
    p = Printer(file, WIDEST)
    p.print(draw(run, View(), p, 24 + len(run.processes), wait=True))
