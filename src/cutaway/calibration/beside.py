"""What recording costs apart from events of Python: call sites, records of a device API, and the work of the background thread.

Called by bench.py in its process. The background thread is measured by its own CPU clock, from the samples it leaves in the log.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from cutaway import _recorder
from cutaway.calibration.prior import Kind, Measure

EVENTS = 60_000  # several segments: each is compacted as it gets full
TICKS_HZ = 200.0


def session(work: Callable[[], Any], **options: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Records while `work` runs; its result and the samples in the log."""
    from cutaway.trace.reader import read_run

    with tempfile.TemporaryDirectory() as folder:
        _recorder.start(folder, name="calibration", **options)
        try:
            result = work()
        finally:
            _recorder.stop()
        return result, [s for process in read_run(Path(folder)).processes for s in process.log.samples]


def background(
    make_events: Callable[[int], None], rounds: int, interval: Callable[[list[float]], Measure]
) -> dict[str, Kind]:
    """The meters for one tick, and compaction for one event: CPU time of the background thread, which delays no one directly."""
    _, samples = session(lambda: time.sleep(max(rounds, 60) / TICKS_HZ), sample_hz=TICKS_HZ)
    own = [float(s["own"]) for s in samples]
    if len(own) < 5:
        return {}  # a machine so busy that the thread hardly ran: better no figure than a wrong one
    ticks = interval([b - a for a, b in pairwise(own)])
    each = []
    for _ in range(max(4, rounds // 10)):
        _, samples = session(lambda: make_events(EVENTS), sample_hz=0.1)
        each.append(max(0.0, float(samples[-1]["own"]) - ticks.ns) / EVENTS)
    compaction = interval(each)
    return {"meter_tick": Kind(ticks, ticks, 0.0), "compaction": Kind(compaction, compaction, 0.0)}


def api_call(rounds: int, interval: Callable[[list[float]], Measure]) -> dict[str, Kind]:
    """One record of a device API, as a layer that stands in the call writes it. Nothing where the library is missing."""
    from cutaway.record.devices import events, library

    loaded = library.load()
    if loaded is None:
        return {}

    def write() -> list[float]:
        loaded.cutaway_devices_attach()
        call = library.pack_call(loaded, events.Api("calibration", 1, 2, 0, 0))
        many, each = 500, []
        for _ in range(rounds):
            begin = time.thread_time_ns()
            loaded.cutaway_devices_api(call * many, many, 0)
            each.append((time.thread_time_ns() - begin) / many)
        loaded.cutaway_devices_close()
        return each

    hot = interval(session(write, sample_hz=0.1)[0])
    return {"api_call": Kind(hot, Measure(3 * hot.ns, hot.ns, 6 * hot.ns), 0.0)}
