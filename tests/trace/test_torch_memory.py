"""Snapshots of PyTorch's caching allocator.

There is no GPU here. One snapshot is made by PyTorch itself, from its profiler on the CPU (`_memory_viz._profile_to_snapshot`); the
others are built from the structure that `torch.cuda.memory._snapshot` documents. Their numbers are invented.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import cutaway
from cutaway.commands import main
from cutaway.errors import CutawayError
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core

MB = 1_000_000


def frames(line: int) -> list[dict[str, Any]]:
    """Innermost first, as PyTorch writes them."""
    library = "/env/site-packages/torch/nn/modules/linear.py"
    return [
        {"filename": library, "line": 125, "name": "forward"},
        {"filename": "/home/me/train.py", "line": line, "name": "update"},
    ]


class Allocator:
    """Writes what PyTorch's would."""

    def __init__(self) -> None:
        self.trace: list[dict[str, Any]] = []
        self.annotations: list[dict[str, Any]] = []
        self.blocks: dict[int, dict[str, Any]] = {}
        self.reserved = 0
        self.now = 1_000_000

    def note(self, action: str, size: int, **more: Any) -> None:
        self.now += 10
        about = {"action": action, "size": size, "stream": 0, "time_us": self.now}
        self.trace.append({**about, **more})

    def segment(self, size: int) -> None:
        self.reserved += size
        self.note("segment_alloc", size, addr=1 << 40, frames=[])

    def allocate(self, address: int, size: int, line: int) -> None:
        block = {"size": size, "requested_size": size - 100, "frames": frames(line)}
        self.blocks[address] = {**block, "address": address}
        self.note("alloc", size, addr=address, frames=frames(line))

    def free(self, address: int) -> None:
        size = self.blocks.pop(address)["size"]
        self.note("free_requested", size, addr=address, frames=[])
        self.note("free_completed", size, addr=address, frames=[])

    def annotate(self, name: str, stage: str) -> None:
        self.now += 10
        about = {"name": name, "stage": stage, "device": 0, "time_us": self.now}
        self.annotations.append(about)

    def snapshot(self) -> dict[str, Any]:
        used = sum(block["size"] for block in self.blocks.values())
        blocks = [
            {**block, "state": "active_allocated"} for block in self.blocks.values()
        ]
        free = {"size": self.reserved - used, "state": "inactive", "frames": []}
        segment = {
            "device": 0,
            "address": 1 << 40,
            "total_size": self.reserved,
            "allocated_size": used,
            "active_size": used,
            "is_expandable": False,
            "blocks": [*blocks, free],
        }
        return {
            "segments": [segment],
            "device_traces": [self.trace],
            "external_annotations": self.annotations,
        }


def update() -> Allocator:
    """30 MB stay, 50 MB come and go in an operation: 80 MB of 100 at the peak."""
    made = Allocator()
    made.segment(100 * MB)
    made.allocate(1, 30 * MB, line=10)
    made.annotate("backpropagation", "START")
    made.allocate(2, 50 * MB, line=20)
    made.free(2)
    made.annotate("backpropagation", "END")
    return made


def imported(content: Any, folder: Path, name: str = "snapshot.pickle") -> Path:
    (folder / name).write_bytes(pickle.dumps(content))
    import_files([folder / name], folder / "run.cutaway")
    return folder / "run.cutaway"


def by_line(path: Path) -> dict[int, dict[str, Any]]:
    return {row["your_line"]: row for row in cutaway.open(path).device_memory()}


def test_lines_have_their_part_of_the_peak_and_what_they_keep(tmp_path: Path) -> None:
    found = by_line(imported(update().snapshot(), tmp_path))
    assert {line: row["held"] for line, row in found.items()} == {
        10: 30 * MB,
        20: 50 * MB,
    }
    assert {line: row["kept"] for line, row in found.items()} == {10: 30 * MB, 20: 0}
    assert found[20]["peak"] == 80 * MB
    assert (found[20]["reserved"], found[20]["unused"]) == (100 * MB, 20 * MB)
    assert found[20]["your_file"] == "/home/me/train.py"
    assert found[20]["function"] == "forward"
    assert [found[line]["operation"] for line in (10, 20)] == ["", "backpropagation"]


def test_what_was_there_before_the_history_belongs_to_nobody(tmp_path: Path) -> None:
    content = update().snapshot()
    trace = content["device_traces"][0]
    content["device_traces"][0] = [e for e in trace if e.get("addr") != 1]
    rows = list(cutaway.open(imported(content, tmp_path)).device_memory())
    unknown = [row for row in rows if not row["file"]]
    assert [row["held"] for row in unknown] == [30 * MB]
    assert sum(row["held"] for row in rows) == 80 * MB
    assert sum(row["kept"] for row in rows) == 30 * MB


def test_a_snapshot_without_a_history_tells_who_has_it_now(tmp_path: Path) -> None:
    content = {**update().snapshot(), "device_traces": []}
    path = imported(content, tmp_path)
    assert {line: row["held"] for line, row in by_line(path).items()} == {10: 30 * MB}
    notes = cutaway.open(path).trace.processes[0].log.notes
    assert any("no history" in note for note in notes)


def test_fragmentation_and_rounding(tmp_path: Path) -> None:
    (pool,) = cutaway.open(imported(update().snapshot(), tmp_path)).device_pools()
    assert (pool["reserved"], pool["allocated"]) == (100 * MB, 30 * MB)
    assert pool["requested"] == 30 * MB - 100
    assert (pool["stuck"], pool["largest"]) == (70 * MB, 70 * MB)


def test_a_device_that_refused_memory_is_the_first_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = update()
    made.note("oom", 400 * MB, device_free=7 * MB, frames=frames(33))
    path = imported(made.snapshot(), tmp_path)
    assert main(["show", str(path)]) == 0
    told = " ".join(capsys.readouterr().out.replace("|", " ").split())
    assert "MEMORY PEAK: GPU 0 refused 400.0 MB" in told
    assert "train.py:33" in told
    assert "7.0 MB left" in told


def test_the_table_of_show(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = imported(update().snapshot(), tmp_path)
    assert main(["show", str(path), "--by", "device-memory"]) == 0
    told = capsys.readouterr().out
    (line,) = [one for one in told.splitlines() if "train.py:20" in one]
    for figure in ("backpropagation", "GPU 0", "50.0 MB", "80.0 MB", "100.0 MB"):
        assert figure in line
    assert "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in told


class Evil:
    """What a pickle must not be able to do."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path("/tmp/cutaway-was-here"),))


def test_a_pickle_that_wants_to_run_something_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CutawayError, match="asks for"):
        imported({"segments": [Evil()]}, tmp_path)
    assert not Path("/tmp/cutaway-was-here").exists()


@pytest.mark.parametrize("size", [3, 100, 400])
def test_a_snapshot_that_is_cut_off_is_one_sentence(tmp_path: Path, size: int) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(update().snapshot())[:size])
    with pytest.raises(CutawayError, match=r"copy it again\.$"):
        import_files([path], tmp_path / "run.cutaway")


@pytest.mark.parametrize("content", [{"a": 1}, 7, {"segments": 3}])
def test_another_pickle_is_no_snapshot(tmp_path: Path, content: Any) -> None:
    with pytest.raises(CutawayError, match="no snapshot of PyTorch's memory"):
        imported(content, tmp_path)


def test_a_snapshot_of_a_process_without_a_gpu_says_so(tmp_path: Path) -> None:
    with pytest.raises(CutawayError, match="contains no memory of a device"):
        imported({"segments": [], "device_traces": [[]]}, tmp_path)


@pytest.mark.parametrize("size", [-5, 1 << 70, "much", None])
def test_sizes_that_cannot_be_true_are_left_out_and_told(
    tmp_path: Path, size: Any
) -> None:
    made = update()
    made.note("alloc", size, addr=9, frames=frames(40))
    path = imported(made.snapshot(), tmp_path)
    assert 40 not in by_line(path)
    notes = cutaway.open(path).trace.processes[0].log.notes
    assert any("1 entries of the snapshot are impossible" in note for note in notes)


def test_rows_of_nonsense_do_no_harm(tmp_path: Path) -> None:
    content = update().snapshot()
    content["device_traces"][0] += [None, 3, {"action": [], "size": 7}, {"frames": 2}]
    content["segments"] += [None, {"blocks": 3}, {"device": -1, "blocks": [None]}]
    content["external_annotations"] += [None, {"time_us": "x"}]
    assert by_line(imported(content, tmp_path))[20]["held"] == 50 * MB
