"""Which memory a run has, which lines keep it, and whether it grows without an end.

Resident memory is sampled; what lines keep is estimated from sampled allocations (`native/memory/heap.h`). Growth has an end if
it only fills memory that was allocated before, or a container with a limit; growth without one is what MEMORY GROWS is about.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.growth import NONE, Growth, growth
from cutaway.analysis.processes import life
from cutaway.analysis.stacks import Place, stack_of, your_place
from cutaway.analysis.table import Table
from cutaway.trace.log import Log

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

SETTLING = (
    0.25  # of a process's life: memory that imports and first calls take is no leak
)
LATE_NS = 1_500_000_000  # after which what was allocated stands in the log
LEAVING = 0.25  # if it has most in so late a part, what follows is its end
ENOUGH_NS = 5_000_000_000  # of what is left
INTERVAL = (
    64 << 10
)  # bytes between two sampled points, on average, unless the log says otherwise
KEYS = ("process", "operation", "what")
YOURS = ("your_function", "your_file", "your_line")
COLUMNS = (
    *KEYS,
    *("function", "file", "line"),
    *YOURS,
    *("bytes", "blocks", "error_bytes", "grown", "per_s", "low_per_s", "high_per_s"),
)


@dataclass(frozen=True)
class Course:
    """Bytes over time; each value holds until the next."""

    t_ns: NDArray[np.int64]
    bytes: NDArray[np.float64]

    def at(self, t_ns: float) -> float:
        """The value at a time, 0 before the first."""
        index = int(np.searchsorted(self.t_ns, t_ns, side="right")) - 1
        return float(self.bytes[index]) if index >= 0 else 0.0

    @property
    def last(self) -> float:
        """The value at the end."""
        return float(self.bytes[-1]) if len(self.bytes) else 0.0

    @property
    def most(self) -> float:
        """The largest value."""
        return float(self.bytes.max()) if len(self.bytes) else 0.0


def resident(run: Run) -> Table:
    """Resident memory of each process over time. `pss` and `private` are asked for now and then, else they are not known:
    `pss` counts a page that n processes share as 1/n, `private` only pages that no other process has.

    >>> run.resident().select("process", "rss").columns
    ('process', 'rss')
    """
    rows = []
    for index, process in enumerate(run.trace.processes):
        for sample in process.log.samples:
            if "rss" in sample and sample.get("t") is not None:
                more = [sample.get(key, np.nan) for key in ("pss", "private", "shmem")]
                rows.append((index, sample["t"], sample["rss"], *map(float, more)))
    names = ("process", "t_ns", "rss", "pss", "private", "shmem")
    return Table.from_rows(names, rows)


def memory(run: Run) -> Table:
    """What lines keep in memory: sampled allocations that were alive when their process kept most, by process, operation and
    line, with how fast that grows (bytes a second) since the process has settled.

    >>> len(run.memory())
    0
    """
    rows: list[tuple[Any, ...]] = []
    for index in range(len(run.trace.processes)):
        rows += ProcessMemory(run, index).rows()
    return Table.from_rows(COLUMNS, rows).sort("bytes", descending=True)


class ProcessMemory:
    """The memory of one process."""

    def __init__(self, run: Run, index: int) -> None:
        self.run, self.index = run, index
        self.log: Log = run.trace.processes[index].log

    @cached_property
    def resident(self) -> Course:
        """Resident bytes."""
        return self._sampled("rss")

    @cached_property
    def anonymous(self) -> Course:
        """Resident bytes that are not of files and shared memory."""
        return self._sampled("anon")

    @cached_property
    def mapped(self) -> Course:
        """The address space, touched or not."""
        return self._sampled("mapped")

    @cached_property
    def own(self) -> Course:
        """Resident bytes that no other process has; known now and then."""
        return self._sampled("private")

    @cached_property
    def shared(self) -> Course:
        """Its part of shared memory: the parts of all processes add up to what there is."""
        return self._sampled("shmem")

    @cached_property
    def counted(self) -> Course:
        """Resident bytes, with its part only of what it shares."""
        return self._sampled("pss")

    @cached_property
    def span(self) -> tuple[int, int]:
        """From when the process has settled to its end, without what it frees as it leaves. Who was gone before the training began
        never settled."""
        start, end = life(self.run.swept, self.index)
        settled = start + int(SETTLING * (end - start))
        steady = self.run.stages.steady_ns
        if end <= steady:
            return end, end
        course = self.resident
        if len(course.t_ns):
            fullest = int(course.t_ns[int(np.argmax(course.bytes))])
            end = fullest if fullest > end - LEAVING * (end - start) else end
        return max(settled, steady + LATE_NS if steady and steady < end else 0), end

    @property
    def long_enough(self) -> bool:
        """Whether there is enough data to judge growth."""
        return self.span[1] - self.span[0] >= ENOUGH_NS

    @cached_property
    def growth(self) -> Growth:
        """Of the resident memory."""
        course = self.resident
        return (
            growth(course.t_ns, course.bytes, self.span) if self.long_enough else NONE
        )

    @cached_property
    def sites(self) -> dict[int, tuple[Course, Course]]:
        """What each site keeps over time: bytes, and in how many sampled blocks."""
        points: defaultdict[int, list[tuple[int, int, int]]] = defaultdict(list)
        for entry in self.log.heap:
            t = int(entry.get("t") or 0)
            for site, size, blocks in entry.get("live") or () if t else ():
                points[site].append((t, size, blocks))
        out = {}
        for site, found in points.items():
            t, size, blocks = np.array(found, np.int64).T
            out[site] = Course(t, size.astype(float)), Course(t, blocks.astype(float))
        return out

    @cached_property
    def kept(self) -> Course:
        """What all sites keep together: allocated, whether it has been touched or not."""
        return added([course for course, _ in self.sites.values()])

    @cached_property
    def mallocated(self) -> Course:
        """The same without what libraries map for themselves, often much more than they ever touch."""
        known = self.log.sites
        plain = [n for n in self.sites if n in known and known[n].what == "malloc"]
        return added([self.sites[number][0] for number in plain])

    @cached_property
    def fullest(self) -> int:
        """When it kept most: at its end much may be free again."""
        kept = self.kept
        return int(kept.t_ns[int(np.argmax(kept.bytes))]) if len(kept.t_ns) else 0

    @cached_property
    def interval(self) -> float:
        """Bytes between two sampled points, where they were furthest apart."""
        told = [entry["interval"] for entry in self.log.heap if entry.get("interval")]
        return float(max(told, default=INTERVAL))

    @property
    def containers(self) -> list[dict[str, Any]]:
        """Large containers with a limit as they were last seen: `n` elements, `bytes`, the `most` elements it may hold."""
        found = self.seen_containers
        last = max((entry.get("t") or 0 for entry in found), default=0)
        return [entry for entry in found if entry.get("t") == last]

    @property
    def seen_containers(self) -> list[dict[str, Any]]:
        """The same at every look."""
        found = [entry for entry in self.log.others if entry["k"] == "container"]
        known = ("n", "most", "bytes")
        return [c for c in found if all(_is_size(c.get(key)) for key in known)]

    @property
    def lost(self) -> int:
        """Bytes that sampled allocations stood for which found no room."""
        return max((entry.get("lost", 0) for entry in self.log.heap), default=0)

    def rows(self) -> list[tuple[Any, ...]]:
        """One row for each operation, kind and line."""
        groups: defaultdict[tuple[Any, ...], list[tuple[Course, Course]]] = defaultdict(
            list
        )
        for number, course in self.sites.items():
            site = self.log.sites.get(number)
            if site is None:
                continue
            stack = stack_of(self.log, site.frame)
            inner = stack[-1] if stack else Place("", "", 0)
            yours = your_place(stack) or Place("", "", 0)
            operation = self._operation(site.frame, site.operation)
            key = (operation, site.what, *inner, *yours)
            groups[key].append(course)
        return [self._row(key, members) for key, members in groups.items()]

    def _row(
        self, key: tuple[Any, ...], members: list[tuple[Course, Course]]
    ) -> tuple[Any, ...]:
        course = added([size for size, _ in members])
        blocks = round(added([count for _, count in members]).at(self.fullest))
        kept = course.at(self.fullest)
        arenas = key[1] == "python"  # all of them are recorded
        error = 0.0 if arenas else sampling_error(kept, blocks, self.interval)
        found = NONE
        if self.long_enough:
            found = growth(course.t_ns, course.bytes, self.span, error)
        figures = (round(kept), blocks, round(error), round(found.grown))
        return (self.index, *key, *figures, found.per_s, found.low, found.high)

    def _operation(self, frame: int, recorded: int) -> str:
        if recorded:
            return self.log.name(recorded)
        sampled = self._operations
        while frame and frame not in sampled and frame in self.log.frames:
            frame = self.log.frames[frame].up
        found = sampled.get(frame)
        return found.most_common(1)[0][0] if found else ""

    @cached_property
    def _operations(self) -> dict[int, Counter[str]]:
        """The operations in which a frame, or one called from it, was sampled: they name allocations that have no other name."""
        out: defaultdict[int, Counter[str]] = defaultdict(Counter)
        names = self.run.swept.names
        rows = self.run.swept.samples
        own = self.run.swept.threads["process"][rows["thread"]] == self.index
        columns = (rows[name][own].tolist() for name in ("operation", "frame", "count"))
        for operation, frame, count in zip(*columns, strict=True):
            for _ in range(1024):
                if frame not in self.log.frames:
                    break
                out[frame][names.text(operation)] += count
                frame = self.log.frames[frame].up
        return out

    def _sampled(self, key: str) -> Course:
        found = [
            (s["t"], s[key]) for s in self.log.samples if s.get("t") and s.get(key)
        ]
        times = np.array([t for t, _ in found], np.int64)
        return Course(times, np.array([value for _, value in found], np.float64))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def added(courses: list[Course]) -> Course:
    """The sum of courses, at every time at which one of them changes."""
    if not courses:
        return Course(np.zeros(0, np.int64), np.zeros(0))
    times = np.unique(np.concatenate([course.t_ns for course in courses]))
    total = np.zeros(len(times))
    for course in courses:
        at = np.searchsorted(course.t_ns, times, side="right") - 1
        total += np.where(at >= 0, course.bytes[np.clip(at, 0, None)], 0.0)
    return Course(times, total)


def sampling_error(size: float, blocks: int, interval: float) -> float:
    """The standard error of bytes that so many sampled blocks stand for, if a point falls on one of every `interval` bytes.
    Small blocks are found by chance, blocks of several intervals always.

    >>> round(sampling_error(100e6, 100, 1e6)), round(sampling_error(100e6, 1, 1e6))
    (10000000, 0)
    """
    if not blocks:
        return 0.0
    mean = size / blocks / interval
    chosen = 0.0  # the probability p of a block of n bytes, from the mean n / p
    for _ in range(50):
        chosen = 1 - float(np.exp(-mean * chosen)) if mean > 1 else 0.0
        chosen = chosen or (0.5 if mean > 1 else 0.0)
    return float(size / np.sqrt(blocks) * np.sqrt(1 - chosen))
