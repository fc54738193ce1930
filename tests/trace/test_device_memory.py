"""Memory that an allocator counted, by operation: events that PyTorch's profiler writes.

On this machine PyTorch has its allocator of the CPU only. The file of a GPU is made from a real one by changing the device of its events
and what is reserved; the names of the fields are those that Kineto writes for both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import cutaway
from cutaway.commands import main
from cutaway.trace.imports import import_files

LARGE, SMALL = 8_000_000, 4_000_000
CUDA = 1  # PyTorch's number
ROUNDS = 4


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Each round of a real program keeps 8 MB in one operation; 4 MB come and go in the other."""
    import torch
    from torch.profiler import ProfilerActivity, profile, record_function

    kept = []
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for _ in range(ROUNDS):
            with record_function("inference"):
                passing = torch.empty(SMALL // 4)
                del passing
            with record_function("backpropagation"):
                kept.append(torch.empty(LARGE // 4))
    path = tmp_path_factory.mktemp("written") / "trace.json"
    profiler.export_chrome_trace(str(path))
    content: dict[str, Any] = json.loads(path.read_text())
    return content


def imported(content: Any, folder: Path) -> Path:
    (folder / "trace.json").write_text(json.dumps(content))
    import_files([folder / "trace.json"], folder / "run.cutaway")
    return folder / "run.cutaway"


def rows(path: Path) -> dict[str, dict[str, Any]]:
    return {row["operation"]: row for row in cutaway.open(path).device_memory()}


def on_a_gpu(content: dict[str, Any], reserved: int) -> dict[str, Any]:
    """The same events, as of a GPU whose caching allocator has so much."""
    events = []
    for event in content["traceEvents"]:
        if event["name"] == "[memory]":
            told = {"Device Type": CUDA, "Device Id": 0, "Total Reserved": reserved}
            event = {**event, "args": {**event["args"], **told}}
        events.append(event)
    return {**content, "traceEvents": events}


def test_what_operations_keep_and_their_peaks(
    written: dict[str, Any], tmp_path: Path
) -> None:
    found = rows(imported(written, tmp_path))
    update, inference = found["backpropagation"], found["inference"]
    assert (update["device"], inference["device"]) == (-1, -1)
    assert update["kept"] == ROUNDS * LARGE
    assert update["peak"] == ROUNDS * LARGE
    assert inference["kept"] == 0
    assert inference["peak"] == (ROUNDS - 1) * LARGE + SMALL
    assert (update["count"], inference["count"]) == (ROUNDS, 2 * ROUNDS)


def test_what_a_gpu_reserves_and_does_not_use(
    written: dict[str, Any], tmp_path: Path
) -> None:
    path = imported(on_a_gpu(written, 50_000_000), tmp_path)
    update = rows(path)["backpropagation"]
    assert (update["device"], update["reserved"]) == (0, 50_000_000)
    assert update["unused"] == 50_000_000 - ROUNDS * LARGE


def test_the_table_of_show(
    written: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = imported(on_a_gpu(written, 50_000_000), tmp_path)
    assert main(["show", str(path), "--by", "device-memory"]) == 0
    told = capsys.readouterr().out
    (line,) = [one for one in told.splitlines() if "backpropagation" in one]
    for figure in ("GPU 0", "32.0 MB", "50.0 MB", "18.0 MB", "+32.0 MB"):
        assert figure in line


def test_sizes_that_cannot_be_true_are_left_out_and_told(
    written: dict[str, Any], tmp_path: Path
) -> None:
    path = imported(on_a_gpu(written, -5), tmp_path)
    run = cutaway.open(path)
    assert len(run.device_memory()) == 0
    notes = run.trace.processes[0].log.notes
    assert any("sizes of memory are impossible" in note for note in notes)


def test_a_trace_without_such_events_has_no_table(
    written: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = [event for event in written["traceEvents"] if event["name"] != "[memory]"]
    path = imported({**written, "traceEvents": kept}, tmp_path)
    assert len(cutaway.open(path).device_memory()) == 0
    main(["show", str(path), "--by", "device-memory"])
    assert "No memory" in capsys.readouterr().out
