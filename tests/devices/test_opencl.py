"""Live, end to end: unmodified OpenCL programs on a really asynchronous device (PoCL), recorded by `cutaway run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from device_runs import HERE, Recorded, read, record
from traces import ROOT

import cutaway
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Clock, DeviceKind

SLACK = 200_000  # nanoseconds by which anchors may misplace another clock


def only(run: Path) -> Recorded:
    (recorded,) = read(run)
    return recorded


@pytest.fixture(scope="module")
def overlap(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("overlap") / "o.cutaway"
    done = record(run, str(HERE / "programs/overlap.py"))
    assert done.returncode == 0, done.stderr
    plain = subprocess.run(
        [sys.executable, str(HERE / "programs/overlap.py")],
        capture_output=True,
        text=True,
    )
    assert done.stdout == plain.stdout, "the program computes what it computed before"
    return run


def test_kernels_belong_to_the_operation_that_launched_them(overlap: Path) -> None:
    kernels = {row["name"]: row for row in cutaway.open(overlap).kernels()}
    assert (kernels["slow"]["operation"], kernels["slow"]["count"]) == ("inference", 5)
    assert (kernels["read buffer"]["operation"], kernels["read buffer"]["bytes"]) == (
        "replay",
        4096,
    )


def test_the_breakdown_shows_overlap_and_waiting_for_the_device(overlap: Path) -> None:
    cells = {
        (r["operation"], r["resource"]): r["ns"]
        for r in cutaway.open(overlap).breakdown(by=["operation", "resource"])
    }
    assert cells["simulation", "cpu+gpu"] > 0, (
        "the CPU simulated while the device computed"
    )
    assert cells["sync", "gpu"] > 0, "the thread waited while the device computed"
    assert ("inference", "gpu") not in cells, "launching does not wait"


def test_work_finishes_after_its_operation_ended(overlap: Path) -> None:
    recorded = only(overlap)
    launches = recorded.named(recorded.api, "clEnqueueNDRangeKernel")
    kernels = recorded.named(recorded.work, "slow")
    ends = {int(c["correlation"]): int(c["end"]) for c in launches}
    assert all(kernel["end"] > ends[int(kernel["correlation"])] for kernel in kernels)
    assert recorded.operations(kernels) == ["inference"] * 5


def test_the_devices_clock_is_found_out_and_aligned(overlap: Path) -> None:
    recorded = only(overlap)
    clocks = {
        int(s["clock"]) for s in recorded.process.device_sources if s["stream"] == 2
    }
    assert clocks == {Clock.MONOTONIC_RAW}, "PoCL tells CLOCK_MONOTONIC_RAW"
    launches = recorded.named(recorded.api, "clEnqueueNDRangeKernel")
    waits = recorded.named(recorded.api, "clFinish")
    for kernel, launch, wait in zip(
        recorded.named(recorded.work, "slow"), launches, waits, strict=True
    ):
        assert (
            launch["start"] - SLACK
            <= kernel["start"]
            < kernel["end"]
            <= wait["end"] + SLACK
        )


def test_waits_are_marked_and_the_device_is_described(overlap: Path) -> None:
    recorded = only(overlap)
    assert set(recorded.named(recorded.api, "clFinish")["flags"].tolist()) == {1}
    (device,) = recorded.process.log.devices
    assert device["runtime"] == "opencl" and device["sms"] >= 1
    assert recorded.process.log.losses == []


def test_an_out_of_order_queue(tmp_path: Path) -> None:
    done = record(tmp_path / "o.cutaway", str(HERE / "programs/out_of_order.py"))
    assert done.returncode == 0, done.stderr
    recorded = only(tmp_path / "o.cutaway")
    (held,) = recorded.named(recorded.work, "held")
    (free,) = recorded.named(recorded.work, "free_to_run")
    (fill,) = recorded.work[recorded.work["kind"] == DeviceKind.MEMSET]
    assert held["correlation"] < fill["correlation"] < free["correlation"], (
        "enqueued in this order"
    )
    assert fill["end"] <= free["start"] and free["end"] <= held["start"], (
        "run in this one"
    )
    assert recorded.process.log.name(int(held["operation"])) == "inference"
    assert recorded.process.log.name(int(free["operation"])) == "simulation"


def test_a_run_that_keeps_its_last_second_has_all_its_kernels(tmp_path: Path) -> None:
    run = tmp_path / "o.cutaway"
    done = record(run, "--keep", "1s", str(HERE / "programs/for_a_while.py"), "10")
    assert done.returncode == 0, done.stderr
    iterations = int(done.stdout.split()[0])
    (process,) = read_run(run).processes
    assert (
        process.past is not None
        and process.past.devices.until_ns > process.past.steady_ns > 0
    )
    taken = len(process.device()) + len(process.api())
    opened = cutaway.open(run)
    assert taken < int(opened.processes()["events"].sum()) / 2, (
        "most of it is only in the totals"
    )
    file = process.folder / "device.bin"
    assert file.stat().st_blocks * 512 < file.stat().st_size / 2, (
        "its space is given back"
    )
    kernels = {row["name"]: row for row in opened.kernels() if row["kind"] == "kernel"}
    assert (kernels["add"]["count"], kernels["add"]["operation"]) == (
        100 * iterations,
        "inference",
    )
    assert (kernels["twice"]["count"], kernels["twice"]["operation"]) == (
        iterations,
        "backpropagation",
    )
    threads, cells = opened.threads(), opened.breakdown(by=("thread", "resource"))
    assert int(cells["raw_ns"].sum()) == int(threads["traced_ns"].sum())
    assert {"gpu", "cpu+gpu"} <= set(cells["resource"].tolist())
    assert sum(opened.losses().values()) == 0


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_several_processes_and_a_killed_child_lose_nothing(
    tmp_path: Path, method: str
) -> None:
    done = record(tmp_path / "o.cutaway", str(HERE / "programs/processes.py"), method)
    assert done.returncode == 0, done.stderr
    children = read(tmp_path / "o.cutaway")
    assert len(children) == 2
    for number in (1, 2):
        (child,) = [c for c in children if len(c.named(c.work, f"work{number}"))]
        kernels = child.named(child.work, f"work{number}")
        assert child.operations(kernels) == [f"child {number}"] * 10
        assert child.process.losses.damaged_blocks == 0


def test_a_program_without_python(tmp_path: Path) -> None:
    program = tmp_path / "plain"
    subprocess.run(
        ["cc", str(HERE / "programs/plain.c"), "-o", str(program), "-lOpenCL"],
        check=True,
    )
    done = record(tmp_path / "o.cutaway", str(program))
    assert (done.returncode, done.stdout) == (0, "42\n"), done.stderr
    recorded = only(tmp_path / "o.cutaway")
    (kernel,) = recorded.named(recorded.work, "twice")
    assert kernel["grid"].tolist() == [16, 1, 1] and kernel["block"].tolist() == [
        16,
        1,
        1,
    ]
    (call,) = recorded.named(recorded.api, "clEnqueueReadBuffer")
    assert call["flags"] == 1, "a blocking read waits"
    assert recorded.process.log.exit is not None


def test_the_table_of_functions_is_the_one_of_khronos(tmp_path: Path) -> None:
    """Our declaration, entry by entry, beside the one of Debian's opencl-headers."""
    source = tmp_path / "same.cpp"
    source.write_text("""
        #include "devices/opencl/dispatch.h"
        #include <CL/cl_layer.h>
        #include <cstddef>
        #include <type_traits>
        using cutaway::opencl::Dispatch;
        static_assert(sizeof(Dispatch) <= sizeof(cl_icd_dispatch));
        static_assert(cutaway::opencl::kLayerApiVersion == CL_LAYER_API_VERSION);
        static_assert(cutaway::opencl::kLayerName == CL_LAYER_NAME);
        static_assert(cutaway::opencl::kLayerVersion == CL_LAYER_API_VERSION_100);
        #define PLACE(f, ...) static_assert(offsetof(Dispatch, f) == offsetof(cl_icd_dispatch, f), #f);
        #define TYPE(f) PLACE(f) static_assert(std::is_same_v<decltype(Dispatch::f), decltype(cl_icd_dispatch::f)>);
        CUTAWAY_OPENCL_TABLE(TYPE, PLACE)
    """)
    subprocess.run(
        ["c++", "-std=c++17", "-fsyntax-only", "-I", str(ROOT / "native"), str(source)],
        check=True,
    )


def test_a_recording_that_began_too_late_says_so(tmp_path: Path) -> None:
    program = f"""
import ctypes.util, cutaway
ctypes.CDLL(ctypes.util.find_library("OpenCL"))
with cutaway.record({str(tmp_path / "o.cutaway")!r}):
    pass
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    (process,) = read_run(tmp_path / "o.cutaway").processes
    assert any("OpenCL was in use before" in note for note in process.log.notes)
