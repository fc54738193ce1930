"""Sampled Python stacks reach Perfetto, as its own trace processor reads them."""

from __future__ import annotations

from pathlib import Path

from test_stacks import WORK, recorded
from trace_processor import ask

from cutaway.analysis.exports import export

FRAMES = "stack_profile_callsite s JOIN stack_profile_frame f ON f.id = s.frame_id"


def test_perfetto_has_every_sample_with_its_callers(tmp_path: Path) -> None:
    run = recorded(tmp_path, WORK.replace("wanted", "100") + "\n    work()\n")
    export(tmp_path / "run.cutaway", "perfetto", tmp_path / "out")
    (process,) = run.trace.processes
    times = [time for block, _, _ in process.stack_samples() for time in block.tolist()]
    errors, samples, callers = ask(
        tmp_path / "out",
        [
            "SELECT name, value FROM stats WHERE severity = 'error' AND value > 0",
            "SELECT count(*), min(ts) / 1000, max(ts) / 1000 FROM cpu_profile_stack_sample",
            f"SELECT DISTINCT up.name, here.name FROM (SELECT s.*, f.name FROM {FRAMES}) here "
            f"JOIN (SELECT s.*, f.name FROM {FRAMES}) up ON here.parent_id = up.id",
        ],
    )
    assert errors == []
    assert samples == [(len(times), min(times) // 1000, max(times) // 1000)]
    assert {("work", "three"), ("three", "spin"), ("yielding", "spin")} <= set(callers)
