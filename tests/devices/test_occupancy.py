"""Our occupancy against Kineto's own estimate in traces of real GPUs, and at the limits of the rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from traces import load, traces

from cutaway.analysis.occupancy import occupancy
from cutaway.errors import CutawayError
from cutaway.machines import gpu
from cutaway.machines.multiprocessor import multiprocessor

pytestmark = pytest.mark.core

with_properties = [path for path in traces() if "sglang" not in path.name]


@pytest.mark.parametrize("path", with_properties, ids=lambda path: path.name)
def test_it_agrees_with_kineto_wherever_kineto_has_an_estimate(path) -> None:  # type: ignore[no-untyped-def]
    trace = load(path)
    device = trace["deviceProperties"][0]
    limits = multiprocessor(device["computeMajor"], device["computeMinor"])
    kernels = [
        e["args"]
        for e in trace["traceEvents"]
        if e.get("ph") == "X" and e.get("cat", "").lower() == "kernel"
    ]
    kernels = [k for k in kernels if "registers per thread" in k]
    column = lambda key: [k[key] for k in kernels]  # noqa: E731
    found = occupancy(
        limits,
        device["numSms"],
        column("grid"),
        column("block"),
        column("registers per thread"),
        column("shared memory"),
    )
    theirs = np.array([float(k["est. achieved occupancy %"]) for k in kernels])
    known = theirs > 0
    assert known.sum() > 0.2 * len(kernels)
    assert np.abs(found.estimated[known] * 100 - theirs[known]).max() <= 1.0, (
        "they print whole percents"
    )


def test_a_block_that_fits_nowhere_has_none() -> None:
    found = occupancy(
        multiprocessor(8, 0), 108, [[1, 1, 1]], [[1024, 1, 1]], [255], [0]
    )
    assert found.theoretical.tolist() == [0.0]


def test_shared_memory_limits_with_the_systems_part() -> None:
    # 164 KiB in all, 1 KiB of each block is the system's: 81 KiB each fits twice, one byte more only once.
    limits = multiprocessor(8, 0)
    found = occupancy(
        limits,
        108,
        [[1000, 1, 1]] * 2,
        [[256, 1, 1]] * 2,
        [32] * 2,
        [81 << 10, (81 << 10) + 1],
    )
    assert found.theoretical.tolist() == [512 / 2048, 256 / 2048]


def test_a_small_grid_leaves_multiprocessors_empty() -> None:
    found = occupancy(
        multiprocessor(9, 0), 132, [[66, 1, 1]], [[1024, 1, 1]], [32], [0]
    )
    assert found.theoretical.item() == 1.0
    assert found.estimated.item() == 0.25


def test_unknown_devices_are_not_a_number() -> None:
    assert multiprocessor(3, 5) is None
    assert np.isnan(
        occupancy(None, 10, [[1, 1, 1]], [[32, 1, 1]], [0], [0]).theoretical
    ).all()
    assert multiprocessor(8, 8) == multiprocessor(8, 7), (
        "a newer minor is read as the nearest older one"
    )


def test_what_an_sm_holds_follows_from_the_compute_capability(tmp_path: Path) -> None:
    assert gpu.load("a100").sm == multiprocessor(8, 0)
    amd = gpu.load("mi300x")
    assert (amd.sm.threads, amd.sm.blocks, amd.sm.shared_bytes) == (2048, 32, 64 << 10)
    file = tmp_path / "mine.toml"
    common = "sms = 2\nbandwidth_gbs = 1.0\ntflops = {float32 = 1.0}\n"
    file.write_text(common + 'compute_capability = "7.5"\nshared_per_sm = 4096\n')
    mine = gpu.load(str(file)).sm
    assert (mine.threads, mine.blocks, mine.shared_bytes) == (1024, 16, 4096)
    file.write_text(common + 'compute_capability = "1.0"\n')
    with pytest.raises(CutawayError, match=r"compute capability 1\.0 is not known"):
        gpu.load(str(file))
