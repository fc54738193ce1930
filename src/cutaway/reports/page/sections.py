"""The sections of the page, in the order in which they stand.

To add one: a function that returns its data, a line here, and NAME.js beside this file with `SECTIONS.NAME = (data) => node`.
"""

from __future__ import annotations

from typing import Any

from cutaway.reports import text
from cutaway.reports.digest import Digest
from cutaway.reports.groups import MANY, workforce

from . import bars, rollouts, tables, tree
from .flame import flame_data
from .lanes import build_lanes
from .section import Section, Source


def lanes(of: Source) -> dict[str, Any] | None:
    """What everybody did over time."""
    found = build_lanes(of.run, of.found)
    many = len(workforce(of.found.processes)[0]) > MANY
    first = "the odd ones out first; " if many else ""
    title = f"What {_working(of.found)} did over time ({first}drag to zoom)"
    return found and {"title": title, **found}


def flame(of: Source) -> dict[str, Any] | None:
    """Where the code spends its time."""
    found = flame_data(of.run.steady())
    kernels = (
        ", kernels"
        if found and any(kind == "kernel" for kind, *_ in found["names"])
        else ""
    )
    title = f"Where the code spends its time: operation, your functions, native calls{kernels} (click to zoom)"
    return found and {"title": title, **found}


def _working(found: Digest) -> str:
    """How many processes have lanes; helpers have none."""
    working, helpers = workforce(found.processes)
    beside = f" (without {text.plural(len(helpers), 'helper')})" if helpers else ""
    return text.plural(len(working), "process") + beside


ALL = (
    Section("bars", bars.bars),
    Section("time", bars.over_time),
    Section("tail", rollouts.tail),
    Section("lanes", lanes),
    Section("flame", flame),
    Section("memory", tables.memory),
    Section("device_memory", tables.device_memory),
    Section("waits", tables.waits),
    Section("transitions", tables.transitions),
    Section("callsites", tables.callsites),
    Section("tree", tree.tree),
)
