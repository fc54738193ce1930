"""python benchmarks/curves.py: error of the throughput curve on published measurements, from their first points.

The last known value, held, is what it has to beat. SMT yield and all-core clock of the published machines are priors, not fitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from cutaway.machines.machine import Machine
from cutaway_balance.curve import fit

TABLES = Path(__file__).parents[1] / "tests" / "data" / "throughput_tables.json"
CPUS = {
    "laptop": Machine("i7-8750H", 6, 12, 1.2, 0.85),
    "ws": Machine("5950X", 16, 32, 1.2, 0.85),
}


def published() -> Iterator[tuple[Machine | None, list[float], list[float]]]:
    """Every published curve, with the CPU its workers run on where a worker is a process or thread."""
    for table in json.loads(TABLES.read_text()):
        if table["id"].startswith("envpool"):
            for row in table["rows"]:
                yield (
                    CPUS[table["id"].split("_")[-1]],
                    [float(n) for n in table["columns"][1:]],
                    row[1:],
                )
        elif "_core_" in table["id"]:
            for j in range(1, len(table["columns"])):
                points = [
                    (row[0], row[j]) for row in table["rows"] if row[j] is not None
                ]
                yield None, [n for n, _ in points], [x for _, x in points]


def errors(known: int) -> tuple[list[float], list[float]]:
    """Mean relative error of each curve beyond its first `known` points: ours, and that of the last value held."""
    ours, held = [], []
    for machine, workers, throughput in published():
        if len(workers) <= known:
            continue
        fitted = fit(workers[:known], throughput[:known], machine)
        rest = list(zip(workers[known:], throughput[known:], strict=True))
        ours.append(float(np.mean([abs(fitted(n) / x - 1) for n, x in rest])))
        held.append(
            float(np.mean([abs(throughput[known - 1] / x - 1) for _, x in rest]))
        )
    return ours, held


def main() -> None:
    print("points known   curves   mean error   median   last value held")
    for known in (2, 3):
        ours, held = errors(known)
        print(
            f"{known:12} {len(ours):8} {np.mean(ours):11.1%} {np.median(ours):8.1%} {np.mean(held):15.1%}"
        )


if __name__ == "__main__":
    main()
