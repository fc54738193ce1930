"""From recorded runs to what was named rightly: a table of time by true and automatic operation, for each process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import cutaway
from cutaway.analysis.run import Run

UNNAMED_LIMIT = 0.10
"""At most this share of a process's steady time may be without a name."""
OFF_LIMIT = 0.05
"""At most this far, as a share of steady time, may an operation be from the truth."""
MINIMUM_S = 0.5
"""A process with less steady time than this does no training."""


@dataclass(frozen=True)
class Process:
    """The steady time of one process in nanoseconds by (truth, automatic); "" is no operation.

    Time in which both say that the process waits for work stands in `idle_ns` and nowhere else.
    """

    name: str
    times: dict[tuple[str, str], int]
    idle_ns: int = 0

    @property
    def total_ns(self) -> int:
        return sum(self.times.values())

    def truth(self) -> dict[str, float]:
        """Shares of the true operations."""
        return self._shares(0)

    def automatic(self) -> dict[str, float]:
        """Shares of the operations that were found."""
        return self._shares(1)

    def _shares(self, axis: int) -> dict[str, float]:
        out: Counter[str] = Counter()
        for names, ns in self.times.items():
            out[names[axis]] += ns
        return {name: ns / max(self.total_ns, 1) for name, ns in out.most_common()}

    @property
    def unnamed(self) -> float:
        return self.automatic().get("", 0.0)

    @property
    def misattributed(self) -> float:
        """The share of time that has a name, but not the true one."""
        wrong = sum(
            ns for (truth, found), ns in self.times.items() if found and found != truth
        )
        return wrong / max(self.total_ns, 1)

    def failures(self) -> list[str]:
        """What is beyond the limits, in words."""
        out = []
        if self.unnamed > UNNAMED_LIMIT:
            out.append(f"{self.unnamed:.0%} unnamed")
        truth, found = self.truth(), self.automatic()
        for name in sorted((truth.keys() | found.keys()) - {""}):
            off = found.get(name, 0.0) - truth.get(name, 0.0)
            if abs(off) > OFF_LIMIT:
                out.append(f"{name} {off * 100:+.0f} points")
        return out


@dataclass(frozen=True)
class Result:
    """One program: its processes with both names, and the shares of a run with detection off."""

    program: str
    framework: str
    processes: list[Process]
    reference: dict[str, dict[str, float]] = field(default_factory=dict)
    error: str = ""

    def failures(self) -> list[str]:
        if self.error:
            return [self.error]
        many = len(self.processes) > 1
        return [
            f"{p.name}: {f}" if many else f
            for p in self.processes
            for f in p.failures()
        ]


def read(path: Path) -> list[Process]:
    """The processes of a run that was recorded with the truth as phases."""
    run = cutaway.open(path)
    names = _process_names(run)
    times: dict[int, Counter[tuple[str, str]]] = {}
    idle: Counter[int] = Counter()
    for row in run.steady().breakdown(by=("process", "phase", "operation", "layer")):
        process, ns = int(row["process"]), int(row["raw_ns"])
        if row["layer"] == "wait" and not row["phase"] and not row["operation"]:
            idle[process] += ns
        else:
            # No block in a program parts compiling from the call that caused it; JAX and TensorFlow say when they do.
            truth = "compile" if row["operation"] == "compile" else row["phase"]
            times.setdefault(process, Counter())[truth, row["operation"]] += ns
    return [
        Process(names[process], dict(found), idle[process])
        for process, found in sorted(times.items())
        if sum(found.values()) > MINIMUM_S * 1e9
    ]


def read_reference(path: Path) -> dict[str, dict[str, float]]:
    """Shares of the operations in each process of a run that was recorded with detection off."""
    run = cutaway.open(path)
    names = _process_names(run)
    times: dict[int, Counter[tuple[str, str]]] = {}
    for row in run.steady().breakdown(by=("process", "operation", "layer")):
        if row["layer"] != "wait" or row["operation"]:
            own = times.setdefault(int(row["process"]), Counter())
            own[row["operation"], row["operation"]] += int(row["raw_ns"])
    return {names[p]: Process("", dict(found)).truth() for p, found in times.items()}


def _process_names(run: Run) -> dict[int, str]:
    """Names that are the same in two runs of a program: those with one name are numbered in order of their start."""
    seen: Counter[str] = Counter()
    out = {}
    for row in run.processes():
        seen[row["name"]] += 1
        number = f" #{seen[row['name']]}" if seen[row["name"]] > 1 else ""
        out[int(row["process"])] = row["name"] + number
    return out
