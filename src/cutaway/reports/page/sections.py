"""The sections of the page, in order.

To add one: NAME.py beside this file, with a function that returns its data, one that draws it, and `SECTION`; then its name here.
What people zoom or search has NAME.js instead of the second function.
"""

from __future__ import annotations

from importlib import import_module

from .section import Section

ORDER = (
    "bars",
    "over_time",
    "rollouts",
    "lanes",
    "flame",
    "lines",
    "memory",
    "device_memory",
    "waits",
    "transitions",
    "operators",
    "callsites",
    "tree",
)


def _section(name: str) -> Section:
    section: Section = import_module(f".{name}", __package__).SECTION
    return section


ALL = tuple(map(_section, ORDER))
