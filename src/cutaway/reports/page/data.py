"""The page of a run: everything it shows, and the file."""

from __future__ import annotations

import os
from typing import Any

from cutaway.analysis import Run
from cutaway.reports import text
from cutaway.reports.digest import Digest
from cutaway.reports.digests import digest_of, open_run
from cutaway.reports.terminal import caveats
from cutaway.reports.text import percent

from . import assemble
from .body import body
from .lanes import windows
from .proof import proof
from .section import Palette, Source, palette, short
from .sections import ALL

MOST_OPERATIONS = 12


def build_page(path: str | os.PathLike[str], source: bool = False) -> str:
    """The HTML of a run."""
    data = page_data(open_run(path), source)
    colours = Palette(data["colours"], data["unit"])
    scripted = {}
    for section in ALL:
        if section.draw is None and section.name in data["sections"]:
            scripted[section.name] = data["sections"][section.name]
    shared = {"unit": data["unit"], "colours": data["colours"], "sections": scripted}
    return assemble(data["title"], body(data, colours), shared)


def page_data(run: Run, source: bool = False) -> dict[str, Any]:
    """Everything the page shows."""
    run.windows = windows(run)
    found = digest_of(run)
    of = Source(run, found, found.folded(MOST_OPERATIONS), source)
    made = {section.name: section.data(of) for section in ALL}
    sections = {name: data for name, data in made.items() if data is not None}
    return {
        "title": short(f"Cutaway report — {found.program.title}"),
        "meta": short(" · ".join(_meta(found)), 300),
        "verdict": _verdict(found) | proof(found.verdict, sections),
        "tiles": _tiles(found),
        "unit": found.pace.unit,
        "colours": palette(of, _in_lanes(sections.get("lanes"))).colours,
        "sections": sections,
        "notes": [short(note, 300) for note in found.trust.notes],
        "footer": [short(line, 300) for line in caveats(found)],
    }


def _in_lanes(lanes: dict[str, Any] | None) -> set[str]:
    """Operations of all processes; the other sections are about the main one."""
    planes = lanes["planes"] if lanes else []
    return {operation for operation, _ in planes}


def _verdict(found: Digest) -> dict[str, Any]:
    verdict = found.verdict
    said = {
        key: getattr(verdict, key)
        for key in ("label", "because", "advice", "expected", "then")
    }
    return {
        **{key: short(sentence, 400) for key, sentence in said.items()},
        "certain": verdict.certain,
        "warnings": [short(warning, 400) for warning in verdict.warnings],
    }


def _meta(found: Digest) -> list[str]:
    versions = [
        f"{name} {version}"
        for name, version in list(found.program.versions.items())[:2]
    ]
    python = f"python {found.program.python}" if found.program.python else ""
    parts = [
        found.program.created[:16].replace("T", " "),
        f"host {found.program.host}",
        *found.program.devices,
    ]
    return [
        p
        for p in (*parts, text.plural(found.machine.cores, "core"), *versions, python)
        if p
    ]


def _tiles(found: Digest) -> list[list[str]]:
    """Key figures: value and label."""
    machine = found.machine
    steps = found.pace.steps_per_second
    c = found.trust.correction
    tiles = [[text.number(steps), "steps / s"]] if steps else []
    if tokens := found.pace.tokens_per_second:
        tiles.append([text.number(tokens), "tokens / s"])
    if found.pace.unit != "run":
        each = text.duration(found.total_ns / found.pace.units)
        tiles.append(
            [
                each,
                f"per {found.pace.unit}, {found.pace.iterations or found.pace.steps} in all",
            ]
        )
    if machine.device_busy is not None:
        smi = (
            f" (nvidia-smi: {percent(machine.nvidia_smi)})"
            if machine.nvidia_smi is not None
            else ""
        )
        tiles.append([percent(machine.device_busy), f"GPU busy{smi}"])
    if machine.cores_busy is not None:
        tiles.append([f"{machine.cores_busy:.1f} / {machine.cores}", "CPU cores busy"])
    if machine.watts:
        tiles.append([f"{text.number(machine.watts)} W", "mean power"])
        tiles += [[text.number(steps / machine.watts), "steps / J"]] if steps else []
    if c:
        tiles.append(
            [f"{c.removed * 100:.1f} ± {c.error * 100:.1f} %", "overhead removed"]
        )
    else:
        tiles.append(["not corrected", "the recorder's own cost is in the figures"])
    rest = ", and everything after recording stopped" if found.ending.stopped else ""
    return [
        *tiles,
        [
            str(sum(found.trust.losses.values())),
            f"lost of {found.trust.events:,} events{rest}",
        ],
    ]
