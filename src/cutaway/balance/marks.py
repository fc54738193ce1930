"""What a recorded run tells, as times: operations, waits, steps, iterations and meters of each process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway.balance.steady import Steady
from cutaway.errors import CutawayError
from cutaway.trace.format import LAYERS, Kind, Structured
from cutaway.trace.reader import ProcessTrace, read_run

Array = NDArray[np.float64]
EMPTY: Array = np.zeros(0)
_WAIT = LAYERS.index("wait")


@dataclass
class Marks:
    """Times in seconds of one process: operations by name as (start, end), waits as (start, end, is it a sleep), steps and iterations."""

    process: ProcessTrace
    spans: dict[str, Array] = field(default_factory=dict)
    waits: Array = field(default_factory=lambda: np.zeros((0, 3)))
    steps: Array = field(default_factory=lambda: np.zeros((0, 2)))
    iterations: Array = field(default_factory=lambda: EMPTY)

    def within(self, name: str, window: Steady) -> Array:
        """Spans of an operation that lie in the window."""
        spans = self.spans.get(name, np.zeros((0, 2)))
        return spans[(spans[:, 0] >= window.start) & (spans[:, 1] <= window.end)]

    def cpu(self, window: Steady) -> float:
        """CPU seconds of the process in the window, from the meters; the last samples stand for what comes after them."""
        samples = [s for s in self.process.log.samples if "threads" in s]
        t = np.array([s["t"] * 1e-9 for s in samples])
        start, end = max(window.start, t[0]) if len(t) else 0.0, min(window.end, t[-1]) if len(t) else 0.0
        if end - start < 0.5 * (window.end - window.start):
            return float("nan")
        used, known = np.zeros(len(samples)), dict[str, int]()
        for i, sample in enumerate(samples):  # a thread that did nothing since the last sample is not in it
            known.update({tid: values[0] for tid, values in sample["threads"].items()})
            used[i] = 1e-9 * sum(known.values())
        rate = (np.interp(end, t, used) - np.interp(start, t, used)) / (end - start)
        return float(rate * (window.end - window.start))

    def foreign(self, window: Steady) -> float:
        """Cores' worth of CPU time that went to other programs in the window, as this process saw it."""
        seen = [s["foreign"] for s in self.process.log.samples
                if "foreign" in s and window.start <= s["t"] * 1e-9 <= window.end]  # fmt: skip
        return float(np.mean(seen)) if seen else 0.0


def marks(process: ProcessTrace) -> Marks:
    """Reads what the models need of a process."""
    found = Marks(process)
    spans: dict[str, list[Array]] = {}
    waits, steps, iterations = [found.waits], [found.steps], [EMPTY]
    for thread in process.threads:
        # Of the calls only those that wait.
        blocks = [b[(b["kind"] != Kind.CALL) | (b["layer"] == _WAIT)] for b in process.events(thread)]
        if not blocks:
            continue
        events = np.concatenate(blocks)
        time, kind, id = events["time"] * 1e-9, events["kind"], events["id"]
        for name in np.unique(id[kind == Kind.OP_ENTER]).tolist():
            pairs = _pairs(time, kind, id == name, Kind.OP_ENTER, Kind.OP_EXIT)
            spans.setdefault(process.log.name(name), []).append(pairs)
        waits += _waits(process, events, time)
        stepped = (kind == Kind.STEP) | (
            (kind == Kind.RESUME) & (events["value"] > 0)
        )  # those of an unrecorded unit
        steps.append(np.stack([time[stepped], events["value"][stepped]], axis=1))
        iterations.append(time[kind == Kind.ITERATION])
    found.spans = {name: np.concatenate(v) for name, v in spans.items()}
    found.waits, found.steps, found.iterations = (
        np.concatenate(waits),
        np.concatenate(steps),
        np.sort(np.concatenate(iterations)),
    )
    return found


def _pairs(time: Array, kind: NDArray[np.uint8], mine: NDArray[np.bool_], enter: int, leave: int) -> Array:
    starts, ends = time[mine & (kind == enter)], time[mine & (kind == leave)]
    n = min(len(starts), len(ends))
    return np.stack([starts[:n], ends[:n]], axis=1)


def _waits(process: ProcessTrace, events: Structured, time: Array) -> Iterator[Array]:
    for id, call in process.log.calls.items():
        mine = events["id"] == id
        if call.layer != "wait" or not mine.any():
            continue
        short = mine & (events["kind"] == Kind.CALL)
        plain = np.stack([time[short], events["end"][short] * 1e-9], axis=1)
        both = np.concatenate([plain, _pairs(time, events["kind"], mine, Kind.ENTER, Kind.EXIT)])
        yield np.column_stack([both, np.full(len(both), float(call.fn.endswith("sleep")))])


def read(path: Path) -> list[Marks]:
    """All processes of a run."""
    return [marks(process) for process in read_run(path).processes]


def foreign(everything: Sequence[Marks], window: Steady) -> float:
    """Cores' worth of CPU time that went to other programs in the window."""
    return float(np.median([m.foreign(window) for m in everything])) if everything else 0.0


def progress(path: Path) -> tuple[Array, Array, str]:
    """When environment steps were made in the run and how many, or iterations where no steps are known; times start with the run."""
    everything = read(path)
    return merged_progress(everything, path)


def merged_progress(everything: Sequence[Marks], path: Path) -> tuple[Array, Array, str]:
    steps = np.concatenate([m.steps for m in everything]) if everything else np.zeros((0, 2))
    unit = "steps"
    if not len(steps):
        times = np.concatenate([m.iterations for m in everything]) if everything else EMPTY
        steps, unit = np.stack([times, np.ones_like(times)], axis=1), "iterations"
    if len(steps) < 2:
        raise CutawayError(
            f"{path} has neither environment steps nor iterations: call cutaway.iteration() in the loop or give --metric."
        )
    steps = steps[np.argsort(steps[:, 0])]
    return steps[:, 0], steps[:, 1], unit


def power(path: Path) -> tuple[float | None, float | None]:
    """Mean watts of the GPUs and of the CPUs over the run; None where no meter was available."""
    gpu, cpu = [], []
    for process in read_run(path).processes:
        for sample in process.log.samples:
            watts = sample.get("power") or {}
            if isinstance(watts, dict):
                gpu += [watts["gpu"]] if isinstance(watts.get("gpu"), (int, float)) else []
                cpu += [watts["cpu"]] if isinstance(watts.get("cpu"), (int, float)) else []
    return (float(np.mean(gpu)) if gpu else None), (float(np.mean(cpu)) if cpu else None)
