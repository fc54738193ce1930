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
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from timeit import Timer
from typing import Any

import numpy as np

import cutaway
from cutaway import _recorder
from cutaway.calibration.costs import Cost
from cutaway.calibration.prior import Kind, Prior, machine_key
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind as Event

HOT_CALLS = 4000
HOT_WAITS = 400
WAIT_BYTES = 1 << 16  # takes longer than the 2 µs below which a wait is not recorded
STATEMENTS = {
    "call": "sqrt(2.0)",
    "call_many_arguments": "hypot(3.0, 4.0)",
    "call_keywords": "isclose(1.0, 1.0, rel_tol=0.1)",
    "slot": "numbers[0]",
    "getset": "now.tzinfo",
    "operation": "with operation('calibration'): pass",
    "wait_not_blocking": "sleep(0)",
    "wait": f"read(zeros, {WAIT_BYTES})",
}
COLD_BYTES = (
    2 << 20
)  # more than the caches of a core: what a batch of training does to them
EVENTS = 60_000  # several segments: each is compacted as it gets full
TICKS_HZ = 200.0


def main() -> None:
    if "--quick" in sys.argv:
        rounds = 12
        cold_rounds = 60
    else:
        rounds = 60
        cold_rounds = 400
    names = patched()
    hot = {}
    cold = {}
    for kind, statement in STATEMENTS.items():
        hot[kind] = Timer(statement, timer=time.thread_time_ns, globals=names)
        cold[kind] = Timer(statement, timer=time.perf_counter_ns, globals=names)

    def annotated() -> list[float]:
        return sorted(
            hot["operation"].timeit(HOT_CALLS) / HOT_CALLS for _ in range(rounds)
        )

    def hot_and_cold(kind: str) -> tuple[Cost, Cost]:
        if "wait" in kind:
            calls = HOT_WAITS
        else:
            calls = HOT_CALLS
        junk = bytearray(COLD_BYTES)

        def once() -> float:
            bytes(junk)  # a copy larger than the caches: what was in them is gone
            return cold[kind].timeit(1)

        return _added(rounds, lambda: hot[kind].timeit(calls) / calls), _added(
            cold_rounds, once
        )

    unrecorded = annotated()
    (kinds, recorded), inside = session(
        lambda: ({kind: hot_and_cold(kind) for kind in STATEMENTS}, annotated()),
        _durations,
    )
    call = kinds["call"]
    # An operation against the same annotation when nothing records at all (a pause keeps the stack, which costs as much). Its
    # two records are taken to suffer from cold caches as that of a call does.
    own = _interval([a - b for a, b in zip(recorded, unrecorded, strict=True)])
    more = max(0.0, 2 * (call[1].ns - call[0].ns))
    kinds["operation"] = (
        own,
        Cost(own.ns + more, own.low + more / 2, own.high + 2 * more),
    )
    without, _ = session(lambda: hot_and_cold("call"), call_sites=False)
    kinds["call_site"] = _more(call[0], without[0]), _more(call[1], without[1])
    measured = {
        kind: Kind(hot, cold, inside["operation" if kind == "operation" else "getset"])
        for kind, (hot, cold) in kinds.items()
    }
    measured |= api_call(rounds) | background(hot["call"], rounds)
    print(json.dumps(Prior(measured, machine_key()).to_json()))


def patched() -> dict[str, Any]:
    """What the statements name, once it is recorded."""
    for function, name in (
        (math.sqrt, "math.sqrt"),
        (math.hypot, "math.hypot"),
        (math.isclose, "math.isclose"),
        (datetime.datetime.__dict__["tzinfo"], "datetime.tzinfo"),
    ):
        _recorder.patch(function, name, "backend")
    _recorder.patch_type(array.array, "array.array", "backend", ("__getitem__",))
    _recorder.patch_wait(time.sleep, "time.sleep", "")
    _recorder.patch_wait(os.read, "os.read", "fd")
    return {
        "sqrt": math.sqrt,
        "hypot": math.hypot,
        "isclose": math.isclose,
        "sleep": time.sleep,
        "read": os.read,
        "numbers": array.array("d", [1.0]),
        "now": datetime.datetime(2020, 1, 1),
        "operation": cutaway.operation,
        "zeros": os.open("/dev/zero", os.O_RDONLY),
    }


def session(
    work: Callable[[], Any],
    read: Callable[[ProcessTrace], Any] | None = None,
    **options: Any,
) -> tuple[Any, Any]:
    """Records while `work` runs; its result, and what `read` finds in the recording."""
    with tempfile.TemporaryDirectory() as folder:
        _recorder.start(folder, name="calibration", **{"sample_hz": 0.1, **options})
        try:
            result = work()
        finally:
            _recorder.stop()
        (process,) = read_run(Path(folder)).processes
        return result, read(process) if read else None


def _added(rounds: int, timed: Callable[[], float]) -> Cost:
    """What recording adds to `timed`, armed and disarmed in alternation."""
    differences = []
    for i in range(rounds):
        pair = {}
        for armed in (True, False) if i % 2 else (False, True):
            if not armed:
                _recorder.pause()
            pair[armed] = timed()
            if not armed:
                _recorder.resume()
        differences.append(pair[True] - pair[False])
    return _interval(differences)


def _interval(values: Sequence[float]) -> Cost:
    """Trimmed mean with the 95 % interval of it: interruptions by others are not the recorder's cost."""
    middle = _middle(values)
    mean = statistics.fmean(middle)
    half = 1.96 * statistics.stdev(middle) / (0.6 * len(values) ** 0.5)
    return Cost(max(0.0, mean), max(0.0, mean - half), max(0.0, mean + half))


def _middle(values: Sequence[float]) -> list[float]:
    cut = len(values) // 5
    return sorted(values)[cut : len(values) - cut]


def _more(a: Cost, b: Cost) -> Cost:
    """What a costs more than b."""
    half = math.hypot(a.high - a.ns, b.high - b.ns)
    more = max(0.0, a.ns - b.ns)
    return Cost(more, max(0.0, more - half), more + half)


def _durations(process: ProcessTrace) -> dict[str, float]:
    """Mean recorded length of events around nothing, without the extremes: what of their cost lies inside the interval."""
    lengths: dict[str, list[float]] = {"getset": [], "operation": []}
    ids = [id for id, call in process.log.calls.items() if "tzinfo" in call.fn]
    for thread in process.threads:
        for events in process.events(thread):
            kind = events["kind"]
            mine = events[(kind == Event.CALL) & np.isin(events["id"], ids)][:2000]
            lengths["getset"] += (mine["end"] - mine["time"]).tolist()
            enters, leaves = (
                events["time"][kind == k] for k in (Event.OP_ENTER, Event.OP_EXIT)
            )
            n = min(len(enters), len(leaves))
            spans = leaves[:n] - enters[:n]
            whole = spans[
                (spans >= 0) & (spans < 1 << 18)
            ]  # a block may begin inside an operation
            lengths["operation"] += whole[:2000].tolist()
    return {name: statistics.fmean(_middle(found)) for name, found in lengths.items()}


def background(call: Timer, rounds: int) -> dict[str, Kind]:
    """The meters for one tick, and compaction for one event: CPU time of the background thread, which delays no one directly."""

    def own(process: ProcessTrace) -> list[float]:
        return [float(sample["own"]) for sample in process.log.samples]

    _, used = session(
        lambda: time.sleep(max(rounds, 60) / TICKS_HZ), own, sample_hz=TICKS_HZ
    )
    if len(used) < 5:
        return {}  # on a machine so busy that the thread hardly ran, no figure is better than a wrong one
    tick = _interval([b - a for a, b in pairwise(used)])
    packed = [
        session(lambda: call.timeit(EVENTS), own)[1][-1]
        for _ in range(max(4, rounds // 10))
    ]
    compaction = _interval([max(0.0, ns - tick.ns) / EVENTS for ns in packed])
    return {
        "meter_tick": Kind(tick, tick, 0.0),
        "compaction": Kind(compaction, compaction, 0.0),
    }


def api_call(rounds: int) -> dict[str, Kind]:
    """One record of a device API, as a layer that stands in the call writes it. Nothing where the library is missing."""
    from cutaway.record.devices import events, library

    loaded = library.load()
    if loaded is None:
        return {}

    def write() -> list[float]:
        loaded.cutaway_devices_attach()
        call = library.pack_call(loaded, events.Api("calibration", 1, 2, 0, 0))
        many = 500
        each = []
        for _ in range(rounds):
            begin = time.thread_time_ns()
            loaded.cutaway_devices_api(call * many, many, 0)
            each.append((time.thread_time_ns() - begin) / many)
        loaded.cutaway_devices_close()
        return each

    hot = _interval(session(write)[0])
    return {"api_call": Kind(hot, Cost(3 * hot.ns, hot.ns, 6 * hot.ns), 0.0)}


if __name__ == "__main__":
    main()
