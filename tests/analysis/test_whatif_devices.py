"""What if, of runs on accelerators: constructed ones whose answer is known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from constructed import MS, lockstep

import cutaway
from cutaway.analysis.whatif.changes import Elsewhere
from cutaway.analysis.whatif.gpus import OnGpu
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.analysis.whatif.words import parse
from cutaway.errors import CutawayError
from cutaway.machines.gpu import Gpu
from cutaway.machines.machine import Machine
from cutaway.trace import format as fmt
from cutaway.trace.imports import import_files
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import API_SYNC, DeviceKind, Kind

SHARED = Path(__file__).parents[3] / "shared" / "traces"
pytestmark = pytest.mark.core

ITERATIONS, PERIOD = 20, 10 * MS
Row = tuple[float, float]
Works = list[tuple[float, float, str, int, int]]
"""Start and end in ms, name, stream, and number of the call that launched it."""


def rank(
    run: RunWriter,
    pid: int,
    calls: list[Row],
    works: Works,
    marks: bool = True,
    synchronises: bool = True,
) -> None:
    """A process whose iterations are alike. The last call synchronises."""
    process = run.process(pid=pid, name=f"rank {pid}")
    thread = process.thread(tid=pid, name="MainThread")
    update = process.name("backpropagation")
    for number in range(ITERATIONS):
        start = number * PERIOD
        if marks:
            thread.write([start], [number + 1], Kind.ITERATION, [0])
        thread.write([start], [0], Kind.OP_ENTER, [update])
        api = api_of(process, pid, start, calls)
        api["flags"][-1] = API_SYNC * synchronises
        process.api(api)
        process.device(device_of(process, start, works))
        thread.write([start + PERIOD - 1], [0], Kind.OP_EXIT, [update])
    process.exit(t=ITERATIONS * PERIOD, code=0)


def api_of(process: ProcessWriter, pid: int, start: int, calls: list[Row]) -> fmt.Structured:  # fmt: skip
    rows = np.zeros(len(calls), fmt.API_DTYPE)
    times = np.array(calls) * MS + start
    rows["start"], rows["end"] = times.T.astype(np.uint64)
    rows["os_thread"] = pid
    rows["correlation"] = start // 1000 + 1 + np.arange(len(calls))
    rows["name"] = process.name("cudaLaunchKernel")
    return rows


def device_of(process: ProcessWriter, start: int, works: Works) -> fmt.Structured:
    rows = np.zeros(len(works), fmt.DEVICE_DTYPE)
    for row, (begin, end, name, stream, call) in zip(rows, works, strict=True):
        row["start"], row["end"] = round(start + begin * MS), round(start + end * MS)
        row["name"], row["stream"] = process.name(name), stream
        row["correlation"] = start // 1000 + 1 + call
        collective = name.startswith("nccl")
        row["kind"] = DeviceKind.COLLECTIVE if collective else DeviceKind.KERNEL
    return rows


CALLS: list[Row] = [(2, 2.1), (2.3, 2.4), (3, 8.2)]
# The second kernel is launched early, and begins when the first has ended, in another stream.
KERNELS: Works = [(2.1, 6.1, "gemm_128", 7, 0), (6.1, 8.1, "add", 8, 1)]


def speedup(known: WhatIf, word: str) -> float:
    return known.predict(parse(word), word).speedup


def two_kernels(folder: Path, marks: bool = True) -> WhatIf:
    with RunWriter(folder, command="train.py", cpus=4) as run:
        rank(run, 1, CALLS, KERNELS, marks)
    return WhatIf(cutaway.open(folder))


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("kernel=2x", 10 / 7),
        ("gemm=2x", 10 / 8),
        ("add=2x", 10 / 9),
        # 3 ms until the thread would wait, 0.1 ms at the end of that call, and 1.8 ms after it.
        ("kernel=0", 10 / 4.9),
        ("gemm=0.5x", 10 / 14),
    ],
)
def test_kernels_hang_on_launches_and_threads_on_kernels(
    tmp_path: Path, word: str, expected: float
) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    assert abs(known.error) < 0.01
    assert speedup(known, word) == pytest.approx(expected, rel=0.01)


def test_a_device_that_gets_slower_becomes_the_limit(tmp_path: Path) -> None:
    folder = tmp_path / "ahead.cutaway"
    calls: list[Row] = [(2, 2.1), (9, 9.1)]
    with RunWriter(folder, command="train.py", cpus=4) as run:
        rank(run, 1, calls, [(2.1, 8.1, "gemm", 7, 0)], synchronises=False)
    known = WhatIf(cutaway.open(folder))
    assert abs(known.error) < 0.01
    # 6 ms of 10 become 24: nobody waits for them, but no thread launches far ahead.
    assert speedup(known, "kernel=0.25x") == pytest.approx(10 / 24, rel=0.02)
    assert speedup(known, "kernel=2x") == pytest.approx(1, rel=0.01)


def test_a_recording_without_iterations_is_one(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway", marks=False)
    assert any("without iterations" in note for note in known.graph.notes)
    assert abs(known.error) < 0.01
    assert speedup(known, "kernel=2x") == pytest.approx(10 / 7, rel=0.02)


def test_a_collective_begins_when_all_have_come(tmp_path: Path) -> None:
    folder = tmp_path / "two.cutaway"
    calls: list[Row] = [(2, 2.1), (2.3, 2.4), (3, 8.2)]
    with RunWriter(folder, command="train.py", cpus=4) as run:
        rank(run, 1, calls, [(2.1, 3.1, "quick", 7, 0), (3.1, 8.1, "nccl", 7, 1)])
        rank(run, 2, calls, [(2.1, 6.1, "slow", 7, 0), (6.1, 8.1, "nccl", 7, 1)])
    known = WhatIf(cutaway.open(folder))
    assert abs(known.error) < 0.01
    assert speedup(known, "slow=2x") == pytest.approx(10 / 8, rel=0.01)
    assert speedup(known, "quick=2x") == pytest.approx(1, rel=0.01)
    assert speedup(known, "collective=2x") == pytest.approx(10 / 9, rel=0.01)


def test_what_a_device_does_not_tell_is_refused(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    for word in ("envs=8", "batch=64", "overlap=update"):
        with pytest.raises(CutawayError, match="Of a run on an accelerator"):
            speedup(known, word)


def test_the_table_names_kernels_and_devices(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    free = {row.name: row.free for row in known.worth() if row.kind == "kernel"}
    assert free["gemm_128"] == pytest.approx(speedup(known, "gemm=0"), rel=0.01)
    assert free["add"] == pytest.approx(speedup(known, "add=0"), rel=0.01)
    names = [row.name for row in known.worth() if row.kind == "process"]
    assert {*names} == {"rank 1 (1)", "device 0, stream 7", "device 0, stream 8"}


def test_another_device_is_as_fast_as_its_file_says(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    other = Machine("other", cores=8, threads=8, gpu_speed=2.0)
    found = known.predict([Elsewhere(other)], "--machine other")
    assert found.speedup == pytest.approx(10 / 7, rel=0.01)  # as kernel=2x
    assert "all work of a device 2 times as fast" in " ".join(found.assumes)


A = Gpu("first", 10, 1000.0, {"float32": 10.0})
B = Gpu("second", 10, 2000.0, {"float32": 20.0})
C = Gpu("third", 10, 1000.0, {"float32": 100.0})


def test_another_gpu_makes_kernels_faster_by_its_data_sheet(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    found = known.predict([OnGpu(B, before=A)], "gpu=second")
    assert found.speedup == pytest.approx(10 / 7, rel=0.01)  # as kernel=2x
    assert "kernels 2.00 to 2.00 times as fast" in " ".join(found.assumes)


def test_a_gpu_whose_memory_is_no_faster_may_gain_nothing(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    with pytest.raises(CutawayError, match=r"10 ms to .* memory or arithmetic"):
        known.predict([OnGpu(C, before=A)], "gpu=third")


def test_a_run_that_does_not_name_its_gpu_asks_for_it(tmp_path: Path) -> None:
    known = two_kernels(tmp_path / "one.cutaway")
    with pytest.raises(CutawayError, match="gpu=v100:h100"):
        speedup(known, "gpu=h100")
    assert speedup(known, "gpu=h100:h100") == pytest.approx(1, rel=0.01)


def test_a_real_trace_is_replayed(tmp_path: Path) -> None:
    trace = SHARED / "kineto_hta" / "hta_tracediff_control.json.gz"
    if not trace.is_file():
        pytest.skip("the traces are not at hand")
    import_files([trace], tmp_path / "real.cutaway")
    known = WhatIf(cutaway.open(tmp_path / "real.cutaway"))
    assert abs(known.error) < 0.01
    # Its host launches for as long as the device computes, so only a slower device changes anything.
    assert speedup(known, "kernel=2x") == pytest.approx(1, abs=0.02)
    assert 0.6 < speedup(known, "kernel=0.5x") < 0.9
    assert speedup(known, "gpu=h100") == pytest.approx(1, abs=0.02)


def test_a_point_of_a_curve_that_is_refused_leaves_the_others(tmp_path: Path) -> None:
    path = lockstep(tmp_path / "r.cutaway")
    command = [sys.executable, "-m", "cutaway", "what-if", str(path)]
    done = subprocess.run(
        [*command, "workers=1,3,9"], capture_output=True, text=True, timeout=60, check=True
    )  # fmt: skip
    assert "workers=3: 1.00x as fast" in done.stdout
    assert "cannot fill 9 workers" in " ".join(done.stdout.split())
