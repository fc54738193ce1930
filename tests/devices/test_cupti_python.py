"""The CUPTI collector inside a recorded Python program: operations reach the kernels by external correlation."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from device_runs import HERE, Recorded, in_run, inject, read

import cutaway
from cutaway.record.devices import cupti, library


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, fake_cupti: Path) -> Path:
    folder = tmp_path_factory.mktemp("cuda") / "c.cutaway"
    done = in_run(
        folder,
        [sys.executable, str(HERE / "programs/on_cuda.py")],
        **inject(fake_cupti),
    )
    assert done.returncode == 0, done.stderr
    return folder


def operation_of(recorded: Recorded, kernel: str) -> str:
    (record,) = recorded.named(recorded.work, kernel)
    return recorded.process.log.name(int(record["operation"]))


@pytest.mark.parametrize(
    ("kernel", "operation"),
    [
        ("before_any", ""),
        ("outer", "inference"),
        ("inner", "replay"),
        ("outer_again", "inference"),
        ("other_thread", ""),
    ],
)
def test_a_kernel_carries_the_innermost_operation_of_its_thread(
    run: Path, kernel: str, operation: str
) -> None:
    (recorded,) = read(run)
    assert operation_of(recorded, kernel) == operation


def test_the_tables_agree_with_the_records(run: Path) -> None:
    kernels = {row["name"]: row["operation"] for row in cutaway.open(run).kernels()}
    assert kernels["inner"] == "replay" and kernels["outer"] == "inference"


def test_waiting_for_the_device_is_gpu_time_of_that_operation(run: Path) -> None:
    cells = {
        (r["operation"], r["resource"]): r["ns"]
        for r in cutaway.open(run).breakdown(by=["operation", "resource"])
    }
    assert cells["sync", "gpu"] > 0


def test_work_that_ends_after_the_program_is_not_invented(
    tmp_path: Path, fake_cupti: Path
) -> None:
    done = in_run(
        tmp_path / "c.cutaway",
        [sys.executable, str(HERE / "programs/on_cuda.py"), "late"],
        **inject(fake_cupti),
    )
    assert done.returncode == 0, done.stderr
    (recorded,) = read(tmp_path / "c.cutaway")
    launches = recorded.named(recorded.api, "cudaLaunchKernel")
    assert len(launches) == 6, "its launch is there"
    assert len(recorded.work) in (5, 6), "itself only if it finished in time"


def test_a_phase_that_is_over_survives_a_kill(tmp_path: Path, fake_cupti: Path) -> None:
    run = tmp_path / "c.cutaway"
    done = in_run(
        run,
        [sys.executable, str(HERE / "programs/on_cuda.py"), "killed"],
        **inject(fake_cupti),
    )
    assert done.returncode == -signal.SIGKILL
    (recorded,) = read(run)
    assert len(recorded.work) == 5 and operation_of(recorded, "inner") == "replay"


def test_a_phase_that_ends_is_flushed(tmp_path: Path, fake_cupti: Path) -> None:
    told = tmp_path / "calls"
    command = [sys.executable, str(HERE / "programs/on_cuda.py")]
    done = in_run(
        tmp_path / "c.cutaway",
        command,
        **inject(fake_cupti),
        FAKE_CUPTI_CALLS=str(told),
    )
    assert done.returncode == 0, done.stderr
    flushes = [
        line for line in told.read_text().splitlines() if line.startswith("flush")
    ]
    assert flushes[0] == "flush 0", "the phase: what is finished"
    assert "flush 1" in flushes[1:], "the end: everything"


def test_libcupti_without_a_driver_is_one_sentence() -> None:
    """The real library where there is one: no driver answers on a machine without a GPU."""
    real = sorted(Path("/usr/local").glob("cuda*/lib*/libcupti.so.1*")) or [
        p for p in [cupti.wheel_library()] if p
    ]
    program = "import json, sys; from cutaway.record.devices import cupti; print(json.dumps(cupti.begin(sys.argv[1])))"
    for path in real:
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        code, sentence = json.loads(done.stdout)
        assert cupti.driver_present() or (
            code in (15, 999) and "no NVIDIA driver answers here" in sentence
        )


def test_a_library_that_is_not_there_is_one_sentence() -> None:
    code, sentence = cupti.begin("/nowhere/libcupti.so")
    assert (
        code == -2
        and "cannot be loaded" in sentence
        and "check CUTAWAY_CUPTI" in sentence
    )


def test_another_tools_injection_is_left_alone() -> None:
    assert (
        cupti.environment({"CUDA_INJECTION64_PATH": "/opt/nsys/libToolsInjection64.so"})
        == {}
    )
    assert cupti.environment({})["CUDA_INJECTION64_PATH"] == str(library.path())
