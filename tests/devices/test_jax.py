"""The JAX route: XPlane of a real accelerator through jax.profiler's own reader, and a live window on the CPU."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from device_runs import HERE, in_run
from traces import ROOT

from cutaway.analysis.intervals import length, union
from cutaway.record.devices import events
from cutaway.record.devices import jax as route
from cutaway.record.devices.cupti import PROFILERS
from cutaway.record.frameworks import hooks
from cutaway.trace.reader import read_run
from cutaway.vocabulary import DeviceKind

MI300 = ROOT / "tests/data/xplane/tl_mi300_jax_conv08.xplane.pb"
STARTED = 1771595639214724894  # profile_start_time of that file
# Computed independently, union over a device's lines.
BUSY_NS = {
    0: 3995965,
    1: 3345845,
    2: 3524285,
    3: 3403364,
}


def convert(path: Path) -> tuple[list[events.Api], list[events.Work]]:
    import jax

    return route.convert(jax.profiler.ProfileData.from_file(str(path)))


def test_device_work_of_a_real_trace() -> None:
    _, work = convert(MI300)
    assert len(work) == 60 + 7 * 25
    for device, busy in BUSY_NS.items():
        spans = np.array([(w.start, w.end) for w in work if w.device == device])
        assert abs(length(union(spans[:, 0], spans[:, 1])) - busy) <= len(spans), (
            "picoseconds are rounded to nanoseconds, piece by piece"
        )
    assert all(w.start >= STARTED for w in work), "on CLOCK_REALTIME"
    assert {w.stream for w in work if w.device == 0} == {15, 16, 17, 18}


def test_launches_find_their_work_by_correlation() -> None:
    calls, work = convert(MI300)
    launched = {c.correlation: c for c in calls}
    kernels = [
        w for w in work if w.kind == DeviceKind.KERNEL and w.correlation in launched
    ]
    assert len(kernels) > 150
    assert all(launched[w.correlation].start <= w.start for w in kernels)
    assert all(c.os_thread > 0 for c in launched.values())


def test_a_live_window_says_what_it_saw(tmp_path: Path) -> None:
    """On the CPU there is no device plane; the window opens, closes, and leaves the program alone."""
    run = tmp_path / "j.cutaway"
    done = in_run(
        run,
        [sys.executable, str(HERE / "programs/on_jax.py")],
        CUTAWAY=f"{run}?collector=jax",
    )
    assert (done.returncode, done.stdout) == (0, "8.0\n"), done.stderr
    (process,) = read_run(run).processes
    assert any(
        "jax.profiler recorded device work in windows" in note
        for note in process.log.notes
    ), process.log.notes
    assert not any("cannot record" in note for note in process.log.notes), (
        process.log.notes
    )


def test_the_programs_own_profiler_finds_cupti_free(tmp_path: Path) -> None:
    """Whichever of its doors the program takes."""
    import jax

    told: list[str] = []
    profiler = sys.modules["jax._src.profiler"]
    before = jax.profiler.start_trace
    PROFILERS["jax._src.profiler"](
        profiler, lambda: told.append("make way"), lambda: told.append("take back")
    )
    try:
        with jax.profiler.trace(str(tmp_path / "a")):
            told.append("profiling")
        jax.profiler.start_trace(str(tmp_path / "b"))
        told.append("profiling")
        jax.profiler.stop_trace()
    finally:
        hooks.restore()
    assert told == ["make way", "profiling", "take back"] * 2
    assert jax.profiler.start_trace is before
