"""Demands of a written run with a GPU, where every service time is known: device time is that of the kernels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cutaway.trace.format import API_DTYPE, DEVICE_DTYPE
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import DeviceKind, Kind
from cutaway_balance import sources
from cutaway_balance.trainer import Trainer

pytestmark = pytest.mark.core

CYCLE, CYCLES = (
    2_000_000,
    2000,
)  # ns: one request of one actor, 1 ms of it an environment step
ENV, KERNEL, TRAIN_KERNEL, PER_TRAIN = 1_000_000, 300_000, 4_000_000, 50


def busy(process: ProcessWriter, tid: int, share: float) -> None:
    for t in range(0, CYCLE * CYCLES, 100_000_000):
        process.log(
            "sample",
            {"t": t, "threads": {str(tid): [int(share * t), 0]}, "foreign": 0.0},
        )


def work(process: ProcessWriter, tid: int, launched: np.ndarray, length: int) -> None:
    api = np.zeros(len(launched), API_DTYPE)
    api["start"], api["end"], api["os_thread"] = launched, launched + 5000, tid
    api["correlation"] = np.arange(1, len(launched) + 1)
    device = np.zeros(len(launched), DEVICE_DTYPE)
    device["start"], device["end"], device["kind"] = (
        launched + 9000,
        launched + 9000 + length,
        DeviceKind.KERNEL,
    )
    device["correlation"] = api["correlation"]
    process.log("device", {"id": 0, "name": "Example GPU", "sms": 80})
    process.api(api)
    process.device(device)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gpu") / "r.cutaway"
    start = np.arange(CYCLES) * CYCLE
    with RunWriter(path, command="train.py", source="tests", cpus=4) as writer:
        actor = writer.process(11, name="actor")
        thread = actor.thread(tid=11)
        simulation, waiting = actor.name("simulation"), actor.name("inference_wait")
        times = np.concatenate(
            [
                start,
                start + ENV,
                start + ENV + 1000,
                start + ENV + 20_000,
                start + CYCLE - 1000,
            ]
        )
        kinds = np.repeat(
            [Kind.OP_ENTER, Kind.OP_EXIT, Kind.STEP, Kind.OP_ENTER, Kind.OP_EXIT],
            CYCLES,
        )
        ids = np.repeat([simulation, simulation, 0, waiting, waiting], CYCLES)
        order = np.argsort(times, kind="stable")
        thread.write(
            times[order],
            np.repeat([0, 0, 1, 0, 0], CYCLES)[order],
            kinds[order],
            ids[order],
        )
        busy(actor, 11, 0.52)
        server = writer.process(12, name="inference")
        asked = start + ENV + 100_000
        server.thread(tid=12).spans(
            asked, asked + 500_000, ops=server.name("inference")
        )
        work(server, 12, asked + 20_000, KERNEL)
        busy(server, 12, 0.1)
        learner = writer.process(13, name="learner")
        trained = start[PER_TRAIN::PER_TRAIN]
        learner.thread(tid=13).spans(
            trained, trained + 6_000_000, ops=learner.name("backpropagation")
        )
        work(learner, 13, trained + 10_000, TRAIN_KERNEL)
        busy(learner, 13, 0.05)
    return path


def test_device_time_is_that_of_the_kernels(run: Path) -> None:
    known = sources.load([run]).predictor
    assert isinstance(known, Trainer)
    d = known.demands
    assert d.device(1) == pytest.approx(KERNEL * 1e-9)
    assert d.train_device.mean == pytest.approx(TRAIN_KERNEL * 1e-9)
    assert d.steps_per_train == pytest.approx(PER_TRAIN, rel=0.02)
    assert d.server(1) == pytest.approx(0.1 * CYCLE * 1e-9, rel=0.05)
    assert d.env_step.mean + d.actor_overhead.mean == pytest.approx(
        0.52 * CYCLE * 1e-9, rel=0.05
    )


def test_the_gpu_of_the_run_gives_the_ratio(run: Path) -> None:
    source = sources.load([run])
    assert (source.machine.gpus, source.machine.sms) == (1, 80)
    assert source.predictor is not None
    wanted = source.predictor.wanted_threads(1)
    assert wanted is not None and wanted > 0
