"""Every kind of activity record from CUPTI through the collector and the run to the tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import double
import pytest
from device_runs import HERE, MAIN, Recorded, in_run, inject, read

import cutaway
from cutaway.vocabulary import DeviceKind

GRAPH = 77
FLUSH = 1  # CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH >> 16
PEER = 10  # CUPTI_ACTIVITY_MEMCPY_KIND_PTOP


def run_program(folder: Path, fake: Path, **environment: str) -> Path:
    command = [sys.executable, str(HERE / "programs/on_cuda_kinds.py")]
    done = in_run(folder, command, **inject(fake), **environment)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, fake_cupti: Path) -> Path:
    """A run of that program, on a machine with a driver that describes its device."""
    base = tmp_path_factory.mktemp("kinds")
    options = [word for path in double.includes() for word in ("-isystem", str(path))]
    target = ["-o", str(base / "libcuda.so.1"), "-Wl,-soname,libcuda.so.1"]
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *options]
    subprocess.run(["cc", *flags, str(HERE / "fake_cuda.c"), *target], check=True)
    return run_program(
        base / "k.cutaway", fake_cupti, FAKE_CUDA=str(base / "libcuda.so.1")
    )


@pytest.fixture(scope="module")
def recorded(folder: Path) -> Recorded:
    (found,) = read(folder)
    return found


def table(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in cutaway.open(folder).kernels()}


def test_copies_and_sets(folder: Path) -> None:
    rows = table(folder)
    copy, peer, fill = rows["memcpy HtoD"], rows["memcpy PtoP"], rows["memset"]
    assert (copy["kind"], copy["bytes"], copy["operation"], copy["stream"]) == (
        "memcpy",
        4096,
        "replay",
        7,
    )
    assert (peer["kind"], peer["bytes"], peer["operation"], peer["stream"]) == (
        "memcpy",
        8192,
        "sync",
        8,
    )
    assert (fill["kind"], fill["bytes"], fill["operation"]) == ("memset", 512, "replay")


def test_a_copy_between_devices_says_so(recorded: Recorded) -> None:
    (peer,) = recorded.named(recorded.work, "memcpy PtoP")
    assert peer["detail"] == PEER
    (call,) = recorded.named(recorded.api, "cudaMemcpyPeerAsync")
    assert call["correlation"] == peer["correlation"]


def test_nodes_of_a_graph_one_by_one(folder: Path, recorded: Recorded) -> None:
    nodes = [recorded.named(recorded.work, f"graph_node_{i}") for i in range(2)]
    assert [len(node) for node in nodes] == [1, 1]
    assert {int(node["graph"][0]) for node in nodes} == {GRAPH}
    (call,) = recorded.named(recorded.api, "cudaGraphLaunch")
    assert {int(node["correlation"][0]) for node in nodes} == {int(call["correlation"])}
    rows = table(folder)
    assert (
        rows["graph_node_0"]["operation"]
        == rows["graph_node_1"]["operation"]
        == "inference"
    )
    assert rows["kernel(float*, int)"]["grid"] == "4x2x1"


def test_a_whole_graph_as_one_piece_of_work(tmp_path: Path, fake_cupti: Path) -> None:
    rows = table(
        run_program(tmp_path / "g.cutaway", fake_cupti, CUTAWAY_WHOLE_GRAPHS="1")
    )
    whole = rows[f"graph {GRAPH}"]
    assert (whole["count"], whole["operation"], whole["stream"]) == (1, "inference", 9)
    assert not any(name.startswith("graph_node") for name in rows), "not counted twice"
    assert whole["launch_ns"] == whole["launch_ns"], "its launch is known"


def test_synchronisation_is_recorded_and_keeps_no_device_busy(
    folder: Path, recorded: Recorded
) -> None:
    records = recorded.named(recorded.beside, "device synchronize")
    (sync,) = records
    (call,) = recorded.named(recorded.api, "cudaDeviceSynchronize")
    assert (
        sync["kind"] == DeviceKind.SYNC and sync["correlation"] == call["correlation"]
    )
    assert recorded.operations(records) == ["inference"]
    assert call["start"] <= sync["start"] <= sync["end"] <= call["end"]
    assert "device synchronize" not in table(folder)


def test_cuptis_own_overhead_is_told_and_keeps_no_device_busy(
    folder: Path, recorded: Recorded
) -> None:
    (overhead,) = recorded.named(recorded.beside, "CUPTI overhead")
    assert (overhead["kind"], overhead["detail"]) == (DeviceKind.OVERHEAD, FLUSH)
    lasted = int(overhead["end"] - overhead["start"])
    run = cutaway.open(folder)
    assert run.utilisation()["device_collector_ns"] == lasted >= 300_000
    assert "CUPTI overhead" not in table(folder)
    assert sum(row["count"] for row in run.device_time()) == len(recorded.work)


def test_the_driver_describes_the_device_and_occupancy_follows(
    folder: Path, recorded: Recorded
) -> None:
    (device,) = recorded.process.log.devices
    assert (device["name"], device["sms"], device["major"]) == ("Fake A100 0", 108, 8)
    occupancy = table(folder)["kernel(float*, int)"]["occupancy"]
    assert occupancy == pytest.approx(8 * 128 / (108 * 2048)), (
        "8 blocks of 128 threads on all of its SMs"
    )
    assert (
        table(folder)["memset"]["occupancy"] != table(folder)["memset"]["occupancy"]
    ), "unknown"


def test_show_by_kernel_in_80_columns(folder: Path) -> None:
    command = [sys.executable, "-c", MAIN, "show", str(folder), "--by", "kernel"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert all(
        title in done.stdout
        for title in ("launched in", "time", "calls", "occ.", "latency", "queue")
    )
    done = subprocess.run([*command, "--json"], capture_output=True, text=True)
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert rows["kernel(float*, int)"]["grid"] == ["4x2x1"] and rows[
        "kernel(float*, int)"
    ]["stream"] == [9]
    assert (
        rows["memcpy HtoD"]["occupancy"] is None
        and rows["memcpy HtoD"]["launch_ns"] is not None
    )
