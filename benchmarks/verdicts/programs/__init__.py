"""Programs that each have one known cause, divided by where it is. Importing this package declares them all."""

from . import edges, frameworks, language, one_process, operations, threads, workers

__all__ = [
    "edges",
    "frameworks",
    "language",
    "one_process",
    "operations",
    "threads",
    "workers",
]
