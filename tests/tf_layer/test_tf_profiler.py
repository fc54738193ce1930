"""TensorFlow's own profiler is left the place of CUPTI's one client, whichever of its doors the program takes."""

from __future__ import annotations

import importlib
from pathlib import Path

import tensorflow as tf

from cutaway.record.devices.cupti import PROFILERS
from cutaway.record.frameworks import hooks

MODULE = "tensorflow.python.profiler.profiler_v2"


def test_the_programs_own_profiler_finds_cupti_free(tmp_path: Path) -> None:
    told: list[str] = []
    profiler = importlib.import_module(MODULE)
    before = profiler.start
    PROFILERS[MODULE](
        profiler, lambda: told.append("make way"), lambda: told.append("take back")
    )
    try:
        with profiler.Profile(str(tmp_path / "a")):
            told.append("profiling")
            tf.matmul(tf.ones((4, 4)), tf.ones((4, 4)))
        profiler.start(str(tmp_path / "b"))
        told.append("profiling")
        profiler.stop()
    finally:
        hooks.restore()
    assert told == ["make way", "profiling", "take back"] * 2
    assert profiler.start is before
    assert list((tmp_path / "a").rglob("*.xplane.pb")), (
        "it has written its file as always"
    )
