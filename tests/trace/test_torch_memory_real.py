"""A snapshot that PyTorch itself made, from its profiler on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cutaway
from cutaway.trace.imports import import_files

KEPT, ROUNDS = 8_000_000, 3
PROGRAM = """
import pickle, sys
import torch
from torch.cuda import _memory_viz
from torch.profiler import ProfilerActivity, profile

kept = []
options = {"profile_memory": True, "record_shapes": True, "with_stack": True}
with profile(activities=[ProfilerActivity.CPU], **options) as profiler:
    for _ in range(int(sys.argv[1])):
        kept.append(torch.ones(int(sys.argv[2])) + 1)
content = _memory_viz._profile_to_snapshot(profiler)
pickle.dump(content, open("snapshot.pickle", "wb"))
"""


def test_a_snapshot_that_pytorch_made(tmp_path: Path) -> None:
    # In a process of its own: PyTorch counts on from one profile to the next.
    command = [sys.executable, "-c", PROGRAM, str(ROUNDS), str(KEPT // 4)]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    import_files([tmp_path / "snapshot.pickle"], tmp_path / "run.cutaway")
    rows = list(cutaway.open(tmp_path / "run.cutaway").device_memory())
    # PyTorch follows the tensors that its profiler could identify: here each round's first, which is freed.
    assert [row["kept"] for row in rows] == [0] * len(rows)
    assert KEPT <= sum(row["held"] for row in rows) <= KEPT + 100
    assert "method ones" in " ".join(row["function"] for row in rows if row["held"])
