"""What the tests of naming share: the operations of a recorded run as every reader of it sees them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import cutaway


def operations(path: Path) -> Counter[str]:
    """How often each operation was open in the first process, those included that the analysis named."""
    rows = [row for row in cutaway.open(path).operations() if row["process"] == 0]
    return Counter({row["operation"]: row["count"] for row in rows})


def shares(path: Path) -> dict[str, float]:
    """The share of each operation of the steady time of the first process, in percent; "" is unnamed work, "wait" waiting that
    no operation owns: idle time keeps no name. Without the last iteration, which ends with the process: leaving takes long where
    there are many caches to clear."""
    table = (
        cutaway.open(path)
        .steady()
        .breakdown(by=("process", "operation", "layer", "iteration"))
    )
    rows = [row for row in table if row["process"] == 0]
    last = max(row["iteration"] for row in rows)
    times: Counter[str] = Counter()
    for row in rows:
        waits = not row["operation"] and row["layer"] == "wait"
        name = "wait" if waits else row["operation"]
        times[name] += row["raw_ns"] if row["iteration"] < last or not last else 0
    return {name: 100 * ns / times.total() for name, ns in times.items()}
