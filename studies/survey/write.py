"""Figures, tables and docs/survey.md from the recorded cells; no number here is typed by hand."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import cutaway
from studies.survey.cells import FIGURES, OPENCL, Cell
from studies.survey.findings import (
    FAILS,
    HOLDS,
    OPEN,
    TIME,
    Bars,
    Device,
    Figures,
    Finding,
    bars,
    findings,
)
from studies.survey.record import compare

EXPLAINED = (
    (
        "backends-td3/tf-function",
        "backends-td3/tf-eager",
        "TensorFlow eager beside tf.function",
    ),
    (
        "backends-td3/torch",
        "backends-td3/tf-eager",
        "TensorFlow eager beside PyTorch eager",
    ),
    ("backends-ddpg/torch", "backends-ddpg/torchrl", "TorchRL beside plain PyTorch"),
    (
        "backends-ddpg/torch",
        "backends-ddpg/sb3",
        "Stable-Baselines3 beside plain PyTorch",
    ),
    ("simulators/Pong", "simulators/EnvPool Pong", "EnvPool beside ALE"),
    (
        "scale/own networks",
        "scale/one server",
        "One inference server beside 16 networks",
    ),
)
BUSY = 0.2
"""Share of the cores that other programs used above which times of several runs are not compared."""


def write(
    cells: Sequence[Cell],
    folder: Path,
    docs: Path,
    quick: bool,
    learned: Sequence[str] = (),
) -> list[Finding]:
    """Writes docs/survey.md and its figures; the findings."""
    figures: Figures = {}
    lines: list[str] = []
    for figure, title in FIGURES.items():
        paths = [folder / cell.name for cell in cells if cell.figure == figure]
        paths = [path for path in paths if list(path.glob("*.json"))]
        if not paths:
            continue
        image = docs / "images" / f"survey-{figure}.svg"
        compared = compare(*paths, "--per", "step", "--figure", image)
        (folder / f"{figure}.json").write_text(json.dumps(compared))
        figures[figure] = bars(compared)
        lines += [
            f"## {title}",
            "",
            f"![{title}](images/{image.name})",
            "",
            *_cells(compared),
        ]
        if figure == "simulators":
            lines += _glue(figures[figure])
    found = findings(figures, _devices(folder / "scale" / OPENCL))
    if _foreign(folder) > BUSY * (os.cpu_count() or 1):
        found = [_doubted(finding) for finding in found]
    text = [
        *_head(folder, quick),
        *_findings(found),
        *lines,
        *_processes(folder / "scale"),
        *_explanations(folder),
    ]
    if learned:
        text += ["## Do they learn?", "", *learned, ""]
    (docs / "survey.md").write_text("\n".join(text))
    return found  # fmt: skip


def table(*rows: Sequence[object]) -> list[str]:
    """A table of Markdown; the first row is its head."""
    lines = [f"| {' | '.join(map(str, row))} |" for row in rows]
    return [lines[0], "|---" * len(rows[0]) + "|", *lines[1:], ""]


def _foreign(folder: Path) -> float:
    """How many cores other programs used while a run was recorded, in the middle of all runs that were long enough to tell."""
    told = [
        json.loads(path.read_text())["foreign"] for path in folder.glob("*/*/*.json")
    ]
    cores = [foreign for foreign in told if foreign is not None]
    return float(median(cores)) if cores else 0.0


def _doubted(finding: Finding) -> Finding:
    """What a busy machine leaves of a finding."""
    timed = finding.rests_on == TIME and finding.verdict in (HOLDS, FAILS)
    return (
        replace(finding, verdict=f"{OPEN}: the machine was busy") if timed else finding
    )


def _devices(folder: Path) -> list[Device]:
    """The busiest device of each run, and the process that used it most."""
    found = []
    for path in sorted(folder.glob("*.json")):
        run = cutaway.open(path.with_suffix(".cutaway"))
        used = run.utilisation()
        spent: dict[int, int] = {}
        for row in run.device_time():
            spent[row["process"]] = spent.get(row["process"], 0) + row["ns"]
        for device in used["devices"].values():
            shown = device["nvidia_smi"]["1/6 s"]
            found.append(
                Device(
                    device["busy"],
                    shown,
                    max(spent.values(), default=0) / 1e9,
                    used["span_ns"] / 1e9,
                )
            )
    return found


def _head(folder: Path, quick: bool) -> list[str]:
    how = "make survey QUICK=1" if quick else "make survey"
    runs = [json.loads(path.read_text()) for path in folder.glob("*/*/*.json")]
    foreign = _foreign(folder)
    length = " This is the quick version: few steps, one run a cell." if quick else ""
    busy = (
        f"**The machine was busy** (other programs used {foreign:.1f} cores), so findings that rest on times cannot be told; "
        "do not trust the times and ratios below. Counts do not change with the load, and shares little."
        if foreign > BUSY * (os.cpu_count() or 1)
        else f"The machine was quiet (other programs used {foreign:.1f} cores)."
    )
    return [
        "# The survey: what takes how long, and why",
        "",
        f"`{how}` wrote everything on this page, from {len(runs)} recordings on {os.cpu_count()} cores that took "
        f"{sum(run['seconds'] for run in runs) / 60:.0f} minutes.{length}",
        busy,
        "",
        "    make survey            meant for an hour on two quiet cores; go on later by calling it again",
        "    make survey QUICK=1    the quick version, meant for ten minutes",
        "",
        "Both make the environments they need. `python -m studies.survey --list` names the cells, `--only 'backends-td3/*'` takes some of",
        "them. How to read the figures: [compare](compare.md). What the programs are: [backends](backends.md), [self-play](selfplay.md).",
        "",
    ]


def _findings(found: Sequence[Finding]) -> list[str]:
    rows = [(f.claim, f.published, f.ours, f.verdict, f.rests_on) for f in found]
    return [
        "## Findings",
        "",
        *table(("finding", "RL-Scope", "here", "verdict", "rests on"), *rows),
        "Values in brackets are 95 % intervals. A finding holds, or does not, only if its interval says so.",
        "Intervals of one run come from its iterations, so they do not show how much runs differ.",
        "",
    ]


def _cells(compared: dict[str, Any]) -> list[str]:
    rows = []
    for group, bar in zip(compared["groups"], bars(compared).values(), strict=True):
        total = bar.total
        half = (
            f"{(total.high - total.value) / 1e3:.0f}"
            if total.high == total.high
            else "–"
        )
        python = bar.time(layer="python").value / max(total.value, 1e-9)
        rows.append((
            group["name"], f"{total.value / 1e3:.0f}", half, f"{group['ratio']['value']:.2f}", f"{bar.simulation().value:.0%}",
            f"{python:.0%}", f"{bar.crossings():.1f}", f"{group['overhead']:.1%}", group["runs"],
        ))  # fmt: skip
    head = ("", "µs a step", "±", "ratio", "simulation", "Python", "backend calls a step", "recorder's cost (removed)", "runs")  # fmt: skip
    return table(head, *rows)


def _glue(mine: Bars) -> list[str]:
    """Which simulators are glue in Python, and which really simulate."""
    rows = [
        (
            name,
            f"{bar.time(('simulation',)).value / 1e3:.0f}",
            f"{bar.glue().value:.0%}",
            "Python glue" if bar.glue().value > 0.5 else "simulation",
        )
        for name, bar in mine.items()
    ]
    return table(
        ("simulator", "µs of simulation a step", "of it in Python", "which is mostly"),
        *rows,
    )


def _processes(folder: Path) -> list[str]:
    """Who is busy and who waits, in the first run of each way to scale up."""
    lines = []
    for path in sorted(folder.glob("*/0.json")):
        run = cutaway.open(path.with_suffix(".cutaway"))
        names = run.processes()["name"].tolist()
        rows = [
            (names[process], *(f"{part:.0%}" for part in parts))
            for process, parts in enumerate(_shares(run, len(names)))
            if sum(parts)
        ]
        head = (
            "process",
            "waits",
            "Python",
            "backend",
            "inference",
            "search",
            "simulation",
        )
        lines += [f"### Who is busy: {path.parent.name}", "", *table(head, *rows)]
    return ["## Self-play, process by process", "", *lines] if lines else []


def _shares(run: Any, processes: int) -> Iterable[list[float]]:
    for process in range(processes):
        rows = list(
            run.breakdown(by=("process", "operation", "layer")).where(process=process)
        )
        whole = sum(row["ns"] for row in rows) or 1
        wanted = (("layer", "wait"), ("layer", "python"), ("layer", "backend"), ("operation", "inference"),
                  ("operation", "search"), ("operation", "simulation"))  # fmt: skip
        yield [
            sum(row["ns"] for row in rows if row[key] == name) / whole
            for key, name in wanted
        ]


def _explanations(folder: Path) -> list[str]:
    lines: list[str] = []
    for a, b, title in EXPLAINED:
        if all(list((folder / name).glob("*.json")) for name in (a, b)):
            said = compare("--explain", folder / a, folder / b, "--per", "step")[
                "explanation"
            ]["sentences"]
            command = f"`cutaway compare --explain '{a}' '{b}'` says:"
            lines += [
                f"## {title}",
                "",
                command,
                "",
                *(f"- {line}" for line in said),
                "",
            ]
    return lines
