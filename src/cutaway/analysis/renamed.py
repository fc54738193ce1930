"""Names of 0.1 that are called something else now. They go on working until 0.3 (docs/stability.md)."""

from __future__ import annotations

import warnings

METHODS = {
    "hotspots": "callsites",
    "launched": "launched_work",
    "launches": "launch_waits",
    "leader": "main_process",
}
COLUMNS = {"short_ns": "uncorrected_ns", "foreign": "other_cores"}
TABLES = {"hotspots": "callsites"}
"""In SQL."""


def renamed(names: dict[str, str], old: str, what: str) -> str:
    """The new name, with a word to who still uses the old one.

    >>> with warnings.catch_warnings(record=True) as said:
    ...     warnings.simplefilter("always")
    ...     new = renamed(METHODS, "launches", "Run.")
    >>> new, str(said[0].message)
    ('launch_waits', 'Run.launches is called launch_waits now')
    """
    new = names[old]
    warnings.warn(f"{what}{old} is called {new} now", DeprecationWarning, stacklevel=3)
    return new
