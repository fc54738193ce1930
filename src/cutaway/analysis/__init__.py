"""From a run to tables: pure functions over a trace, and `Run`, which `cutaway.open` returns."""

from cutaway.analysis.intervals import flatten, overlap
from cutaway.analysis.run import Run, open
from cutaway.analysis.table import Table

__all__ = ["Run", "Table", "flatten", "open", "overlap"]
