"""python -m cutaway.calibration.bench: measures on this machine what one event of each kind adds. Prints JSON.

Runs in a process of its own, because it patches built-ins and records. Each kind is timed armed and disarmed in
alternation; the pairs give the interval. Hot: a tight loop. Cold: single calls, the caches filled with something else before each.
"""

from __future__ import annotations

import array
import datetime
import json
import math
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import cutaway
from cutaway import _recorder
from cutaway.calibration import beside
from cutaway.calibration.prior import Kind, Measure, Prior, machine_key

HOT_CALLS = 4000
HOT_WAITS = 400
WAIT_BYTES = 1 << 16  # takes longer than the 2 µs below which a wait is not recorded
COLD_BYTES = 2 << 20  # more than the caches of a core: what a batch of training does to them


def main() -> None:
    rounds, cold_rounds = (12, 60) if "--quick" in sys.argv else (60, 400)
    unrecorded = _bare(loops()["operation"], rounds)
    with tempfile.TemporaryDirectory() as folder:
        _recorder.start(folder, name="calibration", sample_hz=0.1)
        kinds = measure(rounds, cold_rounds)
        kinds["operation"] = _operation(_bare(loops()["operation"], rounds), unrecorded, kinds["call"])
        _recorder.stop()
        inside = recorded_durations(Path(folder))
    call = loops()["call"]
    plain, _ = beside.session(
        lambda: (_hot(call, rounds), _cold(call, cold_rounds)), sample_hz=0.1, call_sites=False
    )
    kinds["call_site"] = (_more(kinds["call"][0], plain[0]), _more(kinds["call"][1], plain[1]))
    measured = {
        name: Kind(hot, cold, inside["operation" if name == "operation" else "getset"])
        for name, (hot, cold) in kinds.items()
    }
    measured |= beside.api_call(rounds, _interval) | beside.background(call, rounds, _interval)
    print(json.dumps(Prior(measured, machine_key()).to_json()))


def _more(a: Measure, b: Measure) -> Measure:
    """What a costs more than b."""
    half = math.hypot(a.high - a.ns, b.high - b.ns)
    more = max(0.0, a.ns - b.ns)
    return Measure(more, max(0.0, more - half), more + half)


def _bare(loop: Callable[[int], None], rounds: int) -> list[float]:
    return [_timed(loop, HOT_CALLS, time.thread_time_ns) / HOT_CALLS for _ in range(rounds)]


def _operation(
    recorded: list[float], unrecorded: list[float], call: tuple[Measure, Measure]
) -> tuple[Measure, Measure]:
    """An operation against the same annotation when nothing records at all (a pause keeps the stack, which costs as much). Its
    two records are taken to suffer from cold caches as that of a call does."""
    hot = _interval([a - b for a, b in zip(sorted(recorded), sorted(unrecorded), strict=True)])
    more = max(0.0, 2 * (call[1].ns - call[0].ns))
    return hot, Measure(hot.ns + more, hot.low + more / 2, hot.high + 2 * more)


def measure(rounds: int, cold_rounds: int) -> dict[str, tuple[Measure, Measure]]:
    """(hot, cold) of every kind."""
    return {
        name: (_hot(loop, rounds, HOT_WAITS if "wait" in name else HOT_CALLS), _cold(loop, cold_rounds))
        for name, loop in loops().items()
    }


def loops() -> dict[str, Callable[[int], None]]:
    """For each kind, a function that makes so many events of it."""
    numbers, now = array.array("d", [1.0]), datetime.datetime(2020, 1, 1)
    zeros = os.open("/dev/zero", os.O_RDONLY)
    patched = {
        "call": (math.sqrt, "math.sqrt"),
        "call_many_arguments": (math.hypot, "math.hypot"),
        "call_keywords": (math.isclose, "math.isclose"),
        "getset": (datetime.datetime.__dict__["tzinfo"], "datetime.tzinfo"),
    }
    for function, name in patched.values():
        _recorder.patch(function, name, "backend")
    _recorder.patch_type(array.array, "array.array", "backend", ("__getitem__",))
    _recorder.patch_wait(time.sleep, "time.sleep", "")
    _recorder.patch_wait(os.read, "os.read", "fd")
    sqrt, hypot, isclose, sleep, read = math.sqrt, math.hypot, math.isclose, time.sleep, os.read

    def call(n: int) -> None:
        for _ in repeat(None, n):
            sqrt(2.0)

    def call_many_arguments(n: int) -> None:
        for _ in repeat(None, n):
            hypot(3.0, 4.0)

    def call_keywords(n: int) -> None:
        for _ in repeat(None, n):
            isclose(1.0, 1.0, rel_tol=0.1)

    def slot(n: int) -> None:
        for _ in repeat(None, n):
            numbers[0]

    def getset(n: int) -> None:
        for _ in repeat(None, n):
            now.tzinfo  # noqa: B018

    def operation(n: int) -> None:
        for _ in repeat(None, n):
            with cutaway.operation("calibration"):
                pass

    def wait_not_blocking(n: int) -> None:
        for _ in repeat(None, n):
            sleep(0)

    def wait(n: int) -> None:
        for _ in repeat(None, n):
            read(zeros, WAIT_BYTES)

    everything = (call, call_many_arguments, call_keywords, slot, getset, operation, wait_not_blocking, wait)
    return {loop.__name__: loop for loop in everything}


def _hot(loop: Callable[[int], None], rounds: int, calls: int = HOT_CALLS) -> Measure:
    pairs = _alternate(rounds, lambda: _timed(loop, calls, time.thread_time_ns) / calls)
    return _interval([armed - disarmed for armed, disarmed in pairs])


def _cold(loop: Callable[[int], None], rounds: int) -> Measure:
    junk = bytearray(COLD_BYTES)

    def once() -> float:
        bytes(junk)  # a copy larger than the caches: what was in them is gone
        return _timed(loop, 1, time.perf_counter_ns)

    return _interval([armed - disarmed for armed, disarmed in _alternate(rounds, once)])


def _alternate(rounds: int, timed: Callable[[], float]) -> Iterator[tuple[float, float]]:
    for i in range(rounds):
        pair = {}
        for armed in (True, False) if i % 2 else (False, True):
            if not armed:
                _recorder.pause()
            pair[armed] = timed()
            if not armed:
                _recorder.resume()
        yield pair[True], pair[False]


def _timed(loop: Callable[[int], None], n: int, clock: Callable[[], int]) -> float:
    start = clock()
    loop(n)
    return float(clock() - start)


def _interval(values: Sequence[float]) -> Measure:
    """Trimmed mean with the 95 % interval of it: interruptions by others are not the recorder's cost."""
    middle = _middle(values)
    mean = statistics.fmean(middle)
    half = 1.96 * statistics.stdev(middle) / (0.6 * len(values) ** 0.5)
    return Measure(max(0.0, mean), max(0.0, mean - half), max(0.0, mean + half))


def _middle(values: Sequence[float]) -> list[float]:
    cut = len(values) // 5
    return sorted(values)[cut : len(values) - cut]


def recorded_durations(folder: Path) -> dict[str, float]:
    """Mean recorded length of events around nothing, without the extremes: what of their cost lies inside the interval."""
    from cutaway.trace.reader import read_run

    found: dict[str, float] = {}
    for process in read_run(folder).processes:
        for name, lengths in _durations(process).items():
            found[name] = statistics.fmean(_middle(lengths))
    return found


def _durations(process: Any) -> dict[str, list[float]]:
    from cutaway.trace.format import Kind as Event

    names = {"math.sqrt": "call", "math.hypot": "call_many_arguments", "math.isclose": "call_keywords"}
    result: dict[str, list[float]] = {}
    for thread in process.threads:
        for events in process.events(thread):
            kind = events["kind"]
            for call, about in process.log.calls.items():
                name = names.get(
                    about.fn, "getset" if "tzinfo" in about.fn else "slot" if "getitem" in about.fn else ""
                )
                mine = events[(kind == Event.CALL) & (events["id"] == call)][:2000]
                result.setdefault(name, []).extend((mine["end"] - mine["time"]).tolist())
            enters, leaves = (events["time"][kind == k] for k in (Event.OP_ENTER, Event.OP_EXIT))
            n = min(len(enters), len(leaves))
            lengths = leaves[:n] - enters[:n]
            whole = lengths[(lengths >= 0) & (lengths < 1 << 18)]  # a block may begin inside an operation
            result.setdefault("operation", []).extend(whole[:2000].tolist())
    result.pop("", None)
    return {name: lengths for name, lengths in result.items() if lengths}


if __name__ == "__main__":
    main()
