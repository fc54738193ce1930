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
    """The share of each operation of the steady time of the first process, in percent; "" is unnamed."""
    table = cutaway.open(path).steady().breakdown(by=("process", "operation"))
    rows = [row for row in table if row["process"] == 0]
    total = sum(row["raw_ns"] for row in rows)
    return {row["operation"]: 100 * row["raw_ns"] / total for row in rows}
