"""The CUPTI collector against the double: what a program did, and every fault of the list with its outcome."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from device_runs import HERE, Recorded, in_run, inject, read
from device_runs import record as run_command

from cutaway.doctor import Host, check_cupti


def record(
    run: Path, trainer: Path, fake: Path, *words: str, **environment: str
) -> Recorded:
    done = in_run(run, [str(trainer), *words], **inject(fake), **environment)
    assert done.returncode == 0, done.stderr
    (recorded,) = read(run)
    return recorded


def notes(run: Path) -> str:
    return " ".join(
        text
        for log in run.glob("p*/log.jsonl")
        for text in log.read_text().splitlines()
        if '"note"' in text
    )


def test_every_launch_and_kernel_of_a_program_without_python(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(tmp_path / "r.cutaway", trainer, fake_cupti)
    (kernel,) = recorded.named(recorded.work, "kernel(float*, int)")
    assert kernel["stream"] == 7
    assert kernel["grid"].tolist() == [4, 2, 1]
    assert kernel["block"].tolist() == [128, 1, 1]
    assert (kernel["registers"], kernel["shared_static"]) == (32, 1024)
    launches = recorded.named(recorded.api, "cudaLaunchKernel")
    assert sorted(launches["correlation"].tolist()) == sorted(
        recorded.work["correlation"].tolist()
    )
    assert set(launches["os_thread"].tolist()) == {recorded.process.pid}


def test_kernels_run_after_their_launch_on_our_clock(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(tmp_path / "r.cutaway", trainer, fake_cupti)
    launched = {int(c["correlation"]): int(c["start"]) for c in recorded.api}
    anchors = recorded.process.log.anchors
    for kernel in recorded.work:
        assert launched[int(kernel["correlation"])] <= kernel["start"] < kernel["end"]
        assert anchors[0].mono <= kernel["start"] and kernel["end"] <= anchors[-1].mono


def test_without_a_timestamp_callback_cuptis_clock_is_mapped(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(
        tmp_path / "r.cutaway", trainer, fake_cupti, FAKE_CUPTI_NO_CLOCK="1"
    )
    anchors = recorded.process.log.anchors
    assert len(recorded.work) == 2
    slack = 1_000_000  # two anchors close together place REALTIME only so well
    for kernel in recorded.work:
        assert (
            anchors[0].mono - slack <= kernel["start"]
            and kernel["end"] <= anchors[-1].mono + slack
        )


def test_synchronising_calls_are_marked(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(tmp_path / "r.cutaway", trainer, fake_cupti)
    (wait,) = recorded.named(recorded.api, "cudaDeviceSynchronize")
    assert wait["flags"] == 1
    assert wait["end"] >= recorded.work["end"].max()
    assert set(recorded.named(recorded.api, "cudaLaunchKernel")["flags"].tolist()) == {
        0
    }


def test_longer_records_of_newer_cuptis_are_read_by_their_prefix(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(
        tmp_path / "r.cutaway", trainer, fake_cupti, FAKE_CUPTI_KERNEL_SIZE="248"
    )
    assert len(recorded.work) == 2
    assert len(recorded.named(recorded.work, "plain_kernel")) == 1


def test_records_out_of_order_are_ordered_by_the_reader(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(
        tmp_path / "r.cutaway", trainer, fake_cupti, FAKE_CUPTI_REVERSE="1"
    )
    assert len(recorded.work) == 2 and len(recorded.api) == 3
    starts = recorded.work["start"].tolist()
    assert starts == sorted(starts)


def test_dropped_records_are_counted(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(tmp_path / "r.cutaway", trainer, fake_cupti, FAKE_CUPTI_DROP="5")
    assert recorded.lost("device records dropped by CUPTI") == 5


def test_impossible_times_are_counted_and_left_out(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(tmp_path / "r.cutaway", trainer, fake_cupti, "faults")
    assert len(recorded.work) == 2
    assert recorded.lost("device records with impossible times") == 2
    assert len(recorded.named(recorded.api, "cudaLaunchKernel")) == 4


def test_a_kind_that_cannot_be_enabled_is_noted_not_fatal(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    run = tmp_path / "r.cutaway"
    recorded = record(run, trainer, fake_cupti, FAKE_CUPTI_NO_OVERHEAD="1")
    assert len(recorded.work) == 2
    assert "does not record activity kind 17" in notes(run)


def test_a_fork_flushes_what_was_recorded(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    recorded = record(tmp_path / "r.cutaway", trainer, fake_cupti, "fork")
    assert len(recorded.named(recorded.work, "before_fork")) == 1


def test_records_that_come_after_the_collector_has_left_are_kept(
    tmp_path: Path, fake_cupti: Path
) -> None:
    """CUPTI's thread may bring its last buffers when nobody is subscribed any more."""
    run = tmp_path / "r.cutaway"
    program = [sys.executable, str(HERE / "programs/on_cuda.py")]
    done = in_run(run, program, **inject(fake_cupti), FAKE_CUPTI_LATE="1")
    assert done.returncode == 0, done.stderr
    (recorded,) = read(run)
    assert len(recorded.work) == 5 and recorded.process.log.losses == []


def calls(run: Path, trainer: Path, fake: Path, task: str) -> list[str]:
    file = run.with_suffix(".calls")
    record(run, trainer, fake, task, FAKE_CUPTI_CALLS=str(file))
    return [
        line for line in file.read_text().splitlines() if not line.startswith("enable")
    ]


def test_the_collector_flushes_before_a_fork_and_at_exit(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    assert calls(tmp_path / "f.cutaway", trainer, fake_cupti, "fork") == [
        "subscribe",
        "flush 0",
    ]
    assert calls(tmp_path / "e.cutaway", trainer, fake_cupti, "train") == [
        "subscribe",
        "flush 1",
    ], "forced: what is unfinished as well"


def test_only_kinds_that_do_not_serialise_kernels_are_asked_for(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    file = tmp_path / "calls"
    record(tmp_path / "r.cutaway", trainer, fake_cupti, FAKE_CUPTI_CALLS=str(file))
    asked = {
        int(line.split()[1])
        for line in file.read_text().splitlines()
        if line.startswith("enable")
    }
    assert asked == {1, 2, 4, 5, 10, 17, 22, 38, 39}


def test_an_error_that_cupti_has_no_words_for(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    """CUPTI 13.4 without a driver leaves the pointer for the text untouched."""
    run = tmp_path / "r.cutaway"
    faults = {"FAKE_CUPTI_ERROR": "7", "FAKE_CUPTI_NO_TEXT": "1"}
    done = in_run(run, [str(trainer)], **inject(fake_cupti), **faults)
    assert done.returncode == 0
    assert (
        "CUPTI refused to start: error 7 (CUPTI error 7); check that the driver is as new"
        in notes(run)
    )


@pytest.mark.parametrize(
    ("variable", "code", "sentence"),
    [
        ("FAKE_CUPTI_ERROR", "39", "another profiler is using CUPTI"),
        ("FAKE_CUPTI_ALL", "15", "no NVIDIA driver answers here"),
        ("FAKE_CUPTI_ALL", "999", "no NVIDIA driver answers here"),
        ("FAKE_CUPTI_ERROR", "35", "NVreg_RestrictProfilingToAdminUsers=0"),
        ("FAKE_CUPTI_ERROR", "7", "CUPTI refused to start"),
    ],
)
def test_errors_end_in_one_sentence_and_the_program_goes_on(
    tmp_path: Path,
    trainer: Path,
    fake_cupti: Path,
    variable: str,
    code: str,
    sentence: str,
) -> None:
    run = tmp_path / "r.cutaway"
    done = in_run(run, [str(trainer)], **inject(fake_cupti), **{variable: code})
    assert done.returncode == 0
    assert sentence in notes(run) and f"error {code}" in notes(run)


def test_cutaway_run_injects_the_collector(
    tmp_path: Path, trainer: Path, fake_cupti: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTAWAY_CUPTI", str(fake_cupti))
    done = run_command(tmp_path / "r.cutaway", "--collector", "cupti", str(trainer))
    assert done.returncode == 0, done.stderr
    (recorded,) = read(tmp_path / "r.cutaway")
    assert len(recorded.work) == 2


@pytest.mark.parametrize("code", ["15", "999"])
def test_the_doctor_on_a_libcupti_without_a_driver(
    tmp_path: Path, fake_cupti: Path, code: str
) -> None:
    """12.x answers 15 to most calls, 13.4 answers 999 to every one, that for its version included."""
    environ = {**os.environ, "CUTAWAY_CUPTI": str(fake_cupti), "FAKE_CUPTI_ALL": code}
    found = check_cupti(Host(tmp_path, environ))
    assert (found.state, found.text) == (
        "missing",
        f"no NVIDIA driver answers here (CUPTI error {code})",
    )
    assert (
        found.remedy
        == "run on a machine with a GPU and its driver, or use --device none"
    )


def test_the_doctor_on_a_libcupti_that_answers(
    tmp_path: Path, fake_cupti: Path
) -> None:
    machine = Host(tmp_path, {**os.environ, "CUTAWAY_CUPTI": str(fake_cupti)})
    found = check_cupti(machine)
    assert found.state == "limited" and found.text.endswith("but no driver")
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVIDIA 570.86.15 x")
    assert check_cupti(machine).state == "ok"
