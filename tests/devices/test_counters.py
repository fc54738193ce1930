"""Hardware counters over time: CUPTI's PM sampling, with the double. Never run on a GPU."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import double
import pytest
from device_runs import HERE, in_run, inject

import cutaway

SM = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
OTHER_DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"


@pytest.fixture(scope="module")
def fake_cuda(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libcuda.so.1, with one device."""
    out = tmp_path_factory.mktemp("cuda") / "libcuda.so.1"
    include = [word for f in double.includes() for word in ("-isystem", str(f))]
    flags = ["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", *include]
    subprocess.run(["cc", *flags, str(HERE / "fake_cuda.c"), "-o", out], check=True)
    return out


def recorded(
    folder: Path, cupti: Path, cuda: Path, counters: str = "1ms", **settings: str
) -> Any:
    path = folder / "r.cutaway"
    path.mkdir()
    variables = {**inject(cupti), "FAKE_CUDA": str(cuda), **settings}
    variables["CUTAWAY"] = f"{path}?collector=cupti" + (
        f"&counters={counters}" if counters else ""
    )
    program = [sys.executable, str(HERE / "programs/counted.py")]
    done = in_run(path, program, **variables)
    assert done.returncode == 0, done.stderr
    return cutaway.open(path)


def samples(run: Any) -> list[dict[str, Any]]:
    """Every row as a dictionary."""
    found = []
    for process in run.trace.processes:
        for entry in process.log.others:
            if entry["k"] == "counter_samples":
                for t, device, *values in entry["rows"]:
                    told = dict(zip(entry["metrics"], values, strict=True))
                    found.append({"t": t, "device": device, **told})
    return found


def notes(run: Any) -> str:
    return " ".join(
        note for process in run.trace.processes for note in process.log.notes
    )


def test_samples_of_the_gpu_become_measures_of_operations(
    tmp_path: Path, fake_cupti: Path, fake_cuda: Path
) -> None:
    calls = tmp_path / "calls"
    run = recorded(tmp_path, fake_cupti, fake_cuda, FAKE_CUPTI_CALLS=str(calls))
    found = samples(run)
    assert len(found) > 100
    assert found[0][SM] == 10.0 and found[0][DRAM] == 20.0
    anchors = run.trace.processes[0].log.anchors
    times = [sample["t"] for sample in found]
    assert times == sorted(times)
    assert anchors[0].mono < times[0] and times[-1] <= anchors[-1].mono
    steps = {after - before for before, after in pairwise(times)}
    assert steps == {1_000_000}
    (row,) = [row for row in run.counters() if row["operation"] == "inference"]
    assert (row["sm_active"], row["dram"]) == pytest.approx((0.1, 0.2))
    told = [line for line in calls.read_text().splitlines() if "counters" in line]
    begin = ["counters begin", "counters enable", "counters every 1000000 ns"]
    end = ["counters start", "counters stop", "counters disable", "counters end"]
    assert told == [*begin, *end]


def test_nothing_is_counted_unless_asked_for(
    tmp_path: Path, fake_cupti: Path, fake_cuda: Path
) -> None:
    calls = tmp_path / "calls"
    settings = {"FAKE_CUPTI_CALLS": str(calls), "SECONDS": "0.3"}
    run = recorded(tmp_path, fake_cupti, fake_cuda, counters="", **settings)
    assert samples(run) == []
    assert "counters" not in calls.read_text()


def test_what_the_gpu_cannot_count_at_once_is_left_out(
    tmp_path: Path, fake_cupti: Path, fake_cuda: Path
) -> None:
    settings = {"FAKE_CUPTI_PASSES": "sm__", "FAKE_CUPTI_UNKNOWN": "gpu__dram"}
    run = recorded(tmp_path, fake_cupti, fake_cuda, **settings)
    assert set(samples(run)[0]) == {
        "t",
        "device",
        OTHER_DRAM,
        "lts__t_sector_hit_rate.pct",
    }


def test_a_gpu_that_only_counts_its_own_cycles(
    tmp_path: Path, fake_cupti: Path, fake_cuda: Path
) -> None:
    calls = tmp_path / "calls"
    settings = {"FAKE_CUPTI_NO_TIME": "1", "FAKE_CUPTI_CALLS": str(calls)}
    run = recorded(tmp_path, fake_cupti, fake_cuda, **settings)
    assert "counters every 1000000 cycles" in calls.read_text()
    assert samples(run)


def test_a_full_buffer_and_values_that_are_none_are_counted(
    tmp_path: Path, fake_cupti: Path, fake_cuda: Path
) -> None:
    settings = {"FAKE_CUPTI_FULL": "1", "FAKE_CUPTI_NAN": "1"}
    run = recorded(tmp_path, fake_cupti, fake_cuda, **settings)
    lost = {entry["what"]: entry["n"] for entry in run.trace.processes[0].log.losses}
    assert lost["times that a GPU's buffer of counters was full"] == 1
    unusable = lost["samples of hardware counters without a usable time or value"]
    assert unusable > 0  # how many depends on how busy the machine is
    assert {sample[SM] for sample in samples(run)} == {10.0}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"FAKE_CUPTI_COUNTERS": "35"}, ("ERR_NVGPUCTRPERM", "CAP_SYS_ADMIN")),
        ({"FAKE_CUPTI_COUNTERS": "7"}, ("another program", "dcgmi")),
        ({"FAKE_CUPTI_COUNTERS": "43"}, ("MIG", "leave out --counters")),
        ({"FAKE_CUPTI_COUNTERS": "15"}, ("no NVIDIA driver", "leave out --counters")),
        ({"FAKE_CUPTI_UNKNOWN": "_"}, ("none of the counters", "GA100")),
        ({"FAKE_CUPTI_PASSES": "_"}, ("none of the counters", "GA100")),
    ],
)
def test_a_gpu_that_cannot_be_counted_is_one_sentence(
    tmp_path: Path,
    fake_cupti: Path,
    fake_cuda: Path,
    settings: dict[str, str],
    words: tuple[str, ...],
) -> None:
    run = recorded(tmp_path, fake_cupti, fake_cuda, SECONDS="1.5", **settings)
    assert samples(run) == []
    (said,) = [
        note
        for note in run.trace.processes[0].log.notes
        if note.startswith("hardware counters are not sampled: ")
    ]
    assert all(word in said for word in words), said
    assert run.kernels()["count"].sum() > 0, "the rest of the recording goes on"
