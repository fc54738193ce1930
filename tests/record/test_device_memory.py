"""Memory of devices while a program runs. JAX tells it of the CPU, too; of PyTorch's allocator only the shape of its answers is known
here, because there is no GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import cutaway
from cutaway.commands import main
from cutaway.record import device_memory
from cutaway.trace.imports import import_files
from cutaway.trace.writer import RunWriter
from record.recorded import cutaway as command
from record.recorded import script

KEEPS = """
import time, jax, jax.numpy as jnp, cutaway

kept = []

def keep():
    kept.append(jnp.ones((1000, 1000)))

for _ in range(30):
    cutaway.iteration()
    with cutaway.operation("replay"):
        keep()
        time.sleep(0.05)
del kept[10:]
"""
SIZE = 4_000_000


def record(program: str, folder: Path) -> Any:
    script(folder, program)
    done = command("run", "-q", "-o", "run.cutaway", "train.py", cwd=folder)
    assert done.returncode == 0, done.stderr
    return cutaway.open(folder / "run.cutaway")


def test_lines_that_keep_live_buffers_of_jax(tmp_path: Path, capsys: Any) -> None:
    run = record(KEEPS, tmp_path)
    rows = [row for row in run.device_memory() if row["your_function"] == "keep"]
    assert {row["device"] for row in rows} == {-1}
    assert {row["operation"] for row in rows} == {"replay"}
    most = max(row["peak"] for row in rows)
    assert 10 * SIZE <= most <= 31 * SIZE
    assert sum(row["kept"] for row in rows) == 10 * SIZE
    (total,) = run.device_totals()
    assert total["framework"] >= 10 * SIZE
    assert main(["show", str(run.trace.path), "--by", "device-memory"]) == 0
    told = capsys.readouterr().out
    assert "CPU: frameworks had" in told
    assert "replay" in told


def test_a_program_that_has_nothing_on_a_device_has_no_such_table(
    tmp_path: Path,
) -> None:
    run = record("import jax\n", tmp_path)
    assert len(run.device_memory()) == len(run.device_totals()) == 0


def test_a_profile_that_jax_saved(tmp_path: Path) -> None:
    import jax

    kept = jax.numpy.ones((1000, 2000)).block_until_ready()
    path = tmp_path / "memory.prof"
    jax.profiler.save_device_memory_profile(str(path))
    alive = sum(array.nbytes for array in jax.live_arrays())
    import_files([path], tmp_path / "run.cutaway")
    rows = list(cutaway.open(tmp_path / "run.cutaway").device_memory())
    assert sum(row["held"] for row in rows) == alive >= kept.nbytes
    here = [row for row in rows if row["your_file"] == __file__]
    assert kept.nbytes in [row["held"] for row in here]


class Cuda:
    """Answers as torch.cuda does; the names of the figures are those of `memory_stats`."""

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 2

    @staticmethod
    def memory_stats(device: int) -> dict[str, int]:
        figures = {"reserved_bytes.all.current": 9, "allocated_bytes.all.current": 5}
        return figures if device else {}


def test_what_pytorch_has_on_the_devices_it_uses(monkeypatch: Any) -> None:
    told: list[dict[str, Any]] = []
    torch = type("torch", (), {"cuda": Cuda})
    monkeypatch.setitem(device_memory.sys.modules, "torch", torch)
    log = lambda kind, text: told.append({"k": kind, **json.loads(text)})  # noqa: E731
    monkeypatch.setattr(device_memory._recorder, "log", log)
    device_memory._look_at_torch(last=False)
    (entry,) = told
    assert (entry["k"], entry["rows"]) == ("device_use", [[1, 5, 9]])


def test_what_is_not_the_frameworks(tmp_path: Path, capsys: Any) -> None:
    """Two processes with 3 and 4 GB on a GPU that has 9 in use."""
    with RunWriter(tmp_path / "run.cutaway", command="train.py", source="test") as run:
        for pid, size in ((1, 3), (2, 4)):
            process = run.process(pid, name=f"rank {pid}", start_ns=1)
            rows = [[0, 10**9, size * 10**9]]
            process.log("device_use", {"t": 10, "rows": rows})
            gpu = [{"id": 0, "memory": 9 * 10**9}]
            process.log("sample", {"t": 20, "gpu": gpu})
            process.exit(code=0, t=30)
    (total,) = cutaway.open(tmp_path / "run.cutaway").device_totals()
    assert total["framework"] == 7 * 10**9
    assert (total["in_use"], total["outside"]) == (9 * 10**9, 2 * 10**9)
