"""How many tokens the language models of a run generated."""

from __future__ import annotations

from cutaway.trace.reader import Trace


def tokens(trace: Trace, edges: tuple[int, int]) -> int:
    """Of all processes, between two instants."""
    counted = (entry for p in trace.processes for entry in p.log.others if entry["k"] == "tokens")
    return sum(int(entry["n"]) for entry in counted if edges[0] <= int(entry["t"]) < edges[1])
