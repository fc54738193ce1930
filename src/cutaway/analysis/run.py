"""`Run`: a recorded run, asked for tables. Each method is a door to a room of this folder."""

from __future__ import annotations

import os

from cutaway.analysis.processes import processes
from cutaway.analysis.table import Table
from cutaway.trace.reader import Trace, read_run


def open(path: str | os.PathLike[str]) -> Run:
    """Opens a run for analysis.

    >>> import cutaway
    >>> run = cutaway.open(demo_run)
    """
    return Run(read_run(os.fspath(path)))


class Run:
    """A recorded or imported run. Every method returns a table of plain NumPy columns, or a dict."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def processes(self) -> Table:
        """The processes of the run, in order of their start."""
        return processes(self.trace)
