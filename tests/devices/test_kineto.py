"""The Kineto route through the public torch.profiler API, on a fake asynchronous device of Kineto's own kind."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from device_runs import HERE, in_run, read, record

import cutaway
from cutaway.record.devices import kineto
from cutaway.trace.imports.kineto import DEVICE_CATEGORIES, HOST_CATEGORIES
from cutaway.trace.imports.recorded import Item

PROGRAM = str(HERE / "programs/torch_device.py")


@pytest.fixture(scope="module")
def device(kineto_device: str) -> str:
    return kineto_device


@pytest.fixture(scope="module")
def windows(tmp_path_factory: pytest.TempPathFactory, device: str) -> Path:
    """A run recorded in windows of our own."""
    run = tmp_path_factory.mktemp("windows") / "k.cutaway"
    done = record(run, "--collector", "kineto", PROGRAM, device)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return run


def test_windows_of_our_own(windows: Path) -> None:
    (recorded,) = read(windows)
    kernels = recorded.named(recorded.work, "seen_in_a_window")
    assert len(kernels) == 4
    assert set(kernels["stream"].tolist()) == {3}
    launches = recorded.named(recorded.api, "cudaLaunchKernel")
    assert sorted(launches["correlation"].tolist()) == sorted(
        kernels["correlation"].tolist()
    )
    assert any("in windows" in note for note in recorded.process.log.notes), (
        "how much was seen is said"
    )


def test_windows_are_attributed_by_the_launching_thread(windows: Path) -> None:
    run = cutaway.open(windows)
    assert {(row["name"], row["operation"]) for row in run.kernels()} == {
        ("seen_in_a_window", "inference")
    }
    cells = {
        (r["operation"], r["resource"]): r["ns"]
        for r in run.breakdown(by=["operation", "resource"])
    }
    assert cells["sync", "gpu"] > 0, "the thread waited while the device worked"


@pytest.mark.parametrize("route", ["auto", "kineto"])
def test_what_the_programs_own_profiler_saw_is_taken(
    tmp_path: Path, device: str, route: str
) -> None:
    done = record(tmp_path / "k.cutaway", "--collector", route, PROGRAM, device, "own")
    assert (done.returncode, done.stdout) == (0, "4\n"), "its profiler works as before"
    (recorded,) = read(tmp_path / "k.cutaway")
    assert len(recorded.named(recorded.work, "seen_by_the_program")) == 4


def test_another_cupti_client_leads_to_this_route(
    tmp_path: Path, device: str, fake_cupti: Path
) -> None:
    run = tmp_path / "k.cutaway"
    foreign = {
        "CUTAWAY_CUPTI": str(fake_cupti),
        "FAKE_CUPTI_ERROR": "39",
        "CUTAWAY": f"{run}?collector=cupti",
    }
    done = in_run(run, [sys.executable, PROGRAM, device], **foreign)
    assert done.returncode == 0, done.stderr
    (recorded,) = read(run)
    assert len(recorded.named(recorded.work, "seen_in_a_window")) == 4
    (note,) = [text for text in recorded.process.log.notes if "error 39" in text]
    assert note.startswith("another profiler is using CUPTI in this process")


def test_a_profiler_that_keeps_cupti_leads_to_this_route(
    tmp_path: Path, device: str, fake_cupti: Path
) -> None:
    """The collector leaves CUPTI to the program's torch.profiler, which does not give it back."""
    run = tmp_path / "k.cutaway"
    where = {"CUTAWAY_CUPTI": str(fake_cupti), "CUTAWAY": f"{run}?collector=cupti"}
    done = in_run(run, [sys.executable, PROGRAM, device, "stays"], **where)
    assert (done.returncode, done.stdout) == (0, "0\n"), (
        "CUPTI was free for the program's profiler"
    )
    (recorded,) = read(run)
    assert len(recorded.named(recorded.work, "seen_by_the_program")) == 4
    assert len(recorded.named(recorded.work, "seen_in_a_window")) == 4
    (note,) = [text for text in recorded.process.log.notes if "error 39" in text]
    assert note.startswith("the program's own profiler did not release CUPTI")


class OlderEvent:
    """What PyTorch 2.6 tells of an event in process: not its activity type."""

    def __init__(self, name: str, device: str, annotation: bool = False) -> None:
        self._name, self._device, self._annotation = name, device, annotation

    def name(self) -> str:
        return self._name

    def device_type(self) -> object:
        return type("DeviceType", (), {"name": self._device})

    def is_user_annotation(self) -> bool:
        return self._annotation


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        (OlderEvent("sgemm", "CUDA"), "kernel"),
        (OlderEvent("Memcpy HtoD (Pinned -> Device)", "CUDA"), "gpu_memcpy"),
        (OlderEvent("Memset (Device)", "CUDA"), "gpu_memset"),
        (OlderEvent("train", "CUDA", annotation=True), "user_annotation"),
        (OlderEvent("cudaLaunchKernel", "CPU"), "cuda_runtime"),
        (OlderEvent("aten::add", "CPU"), "cpu_op"),
        (OlderEvent("cudaIsMyFavourite", "CPU", annotation=True), "user_annotation"),
    ],
)
def test_older_versions_are_told_apart_by_device_and_name(
    event: OlderEvent, kind: str
) -> None:
    """As the CUDA build of PyTorch 2.6 tells them (check_kineto.py)."""
    assert kineto.activity(event) == kind


def test_the_live_route_and_the_importer_classify_alike() -> None:
    for name, kind in kineto.WORK.items():
        assert DEVICE_CATEGORIES[name] == kind
    assert all(
        HOST_CATEGORIES[name] == Item.API for name in ("cuda_runtime", "cuda_driver")
    )
    assert not set(kineto.CALLS) & {
        name for name, item in HOST_CATEGORIES.items() if item != Item.API
    }
