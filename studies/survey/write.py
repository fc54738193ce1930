"""Figures, tables and docs/survey.md from the recorded cells; no number here is typed by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cutaway
from studies.survey.cells import FIGURES, OPENCL, Cell
from studies.survey.findings import Bars, Device, Finding, bars, findings
from studies.survey.record import compare

EXPLAINED = (
    ("backends-td3/tf-function", "backends-td3/tf-eager", "Why TensorFlow eager is slower than tf.function"),
    ("backends-td3/torch", "backends-td3/tf-eager", "Why TensorFlow eager is slower than PyTorch eager"),
    ("backends-ddpg/torch", "backends-ddpg/sb3", "What the abstractions of a library cost"),
    ("scale/own networks", "scale/one server", "What one inference server changes"),
)


def write(
    cells: Sequence[Cell], folder: Path, docs: Path, quick: bool, learned: Sequence[str] = ()
) -> list[Finding]:
    """Writes docs/survey.md and its figures; the findings."""
    figures: dict[str, Bars] = {}
    lines = _head(quick)
    for figure, title in FIGURES.items():
        paths = [folder / cell.name for cell in cells if cell.figure == figure]
        paths = [path for path in paths if list(path.glob("*.json"))]
        if not paths:
            continue
        image = docs / "images" / f"survey-{figure}.svg"
        compared = compare(*paths, "--per", "step", "--figure", image)
        (folder / f"{figure}.json").write_text(json.dumps(compared))
        figures[figure] = bars(compared)
        lines += [f"## {title}", "", f"![{title}](images/{image.name})", "", *_table(compared), ""]
    found = findings(figures, _devices(folder / "scale" / OPENCL))
    lines[4:4] = _findings(found)
    lines += _explanations(folder)
    if learned:
        lines += ["## Do they learn?", "", *learned, ""]
    (docs / "survey.md").write_text("\n".join(lines))
    return found


def _devices(folder: Path) -> list[Device]:
    """The busiest device of each run, and the process that used it most."""
    found = []
    for path in sorted(folder.glob("*.cutaway")):
        run = cutaway.open(path)
        used = run.utilisation()
        spent: dict[int, int] = {}
        for row in run.device_time():
            spent[row["process"]] = spent.get(row["process"], 0) + row["ns"]
        for device in used["devices"].values():
            shown = device["nvidia_smi"]["1/6 s"]
            found.append(
                Device(device["busy"], shown, max(spent.values(), default=0) / 1e9, used["span_ns"] / 1e9)
            )
    return found


def _head(quick: bool) -> list[str]:
    how = "make survey QUICK=1" if quick else "make survey"
    length = " This is the quick version: few steps, one run a cell." if quick else ""
    return [
        "# The survey: what takes how long, and why",
        "",
        f"Everything on this page is written by `{how}`.{length}",
        "",
    ]


def _findings(found: Sequence[Finding]) -> list[str]:
    rows = [f"| {f.claim} | {f.published} | {f.ours} | {f.verdict} |" for f in found]
    note = (
        "Values in brackets are 95 % intervals. A finding holds, or does not, only if its interval says so."
    )
    return [
        "## Findings",
        "",
        "| finding | RL-Scope | here | verdict |",
        "|---|---|---|---|",
        *rows,
        "",
        note,
        "",
    ]


def _table(compared: dict[str, Any]) -> list[str]:
    lines = [
        "| | µs a step | ± | ratio | simulation | transitions into the backend | recorder's cost (removed) | runs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for group, bar in zip(compared["groups"], bars(compared).values(), strict=True):
        total, simulation = bar.total, bar.time(("simulation",))
        half = f"{(total.high - total.value) / 1e3:.0f}" if total.high == total.high else "–"
        lines.append(
            f"| {group['name']} | {total.value / 1e3:.0f} | {half} | "
            f"{group['ratio']['value']:.2f} | {simulation.value / max(total.value, 1e-9):.0%} | "
            f"{bar.crossings():.1f} | {group['overhead']:.1%} | {group['runs']} |"
        )
    return lines


def _explanations(folder: Path) -> list[str]:
    lines: list[str] = []
    for a, b, title in EXPLAINED:
        if all(list((folder / name).glob("*.json")) for name in (a, b)):
            told = compare("--explain", folder / a, folder / b, "--per", "step")["explanation"]["sentences"]
            lines += [
                f"## {title}",
                "",
                f"`cutaway compare --explain {a} {b}` says:",
                "",
                *(f"- {line}" for line in told),
                "",
            ]
    return lines
