"""A small run that has an example of everything: each kind of log entry, record, stream and file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from cutaway import _sweep
from cutaway.calibration.prior import FALLBACK
from cutaway.trace import format as fmt
from cutaway.trace.format import API_DTYPE, DEVICE_DTYPE
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import (
    API_SYNC,
    FORMAT_VERSION,
    PULSE_MAGIC,
    PULSE_SLOT,
    SEGMENT_MAGIC,
    DeviceKind,
    Kind,
)

ITERATIONS = 5
LENGTH = 1_000_000  # ns of an iteration


def write_seed(folder: Path) -> None:
    """Writes the run into a folder that must not exist."""
    with RunWriter(
        folder, command="train.py --seed 1", source="cutaway run", cutaway="0", cpus=4
    ) as run:
        _learner(run)
        _worker(run)
    (folder / "exit.json").write_text(json.dumps({"code": 0, "t": ITERATIONS * LENGTH}))
    (folder / "calibration.json").write_text(json.dumps(FALLBACK.to_json()))


def _learner(run: RunWriter) -> None:
    p = run.process(
        pid=10,
        name="train.py",
        role="learner",
        versions={"torch": "2"},
        host="a",
        python="3.11",
    )
    for t in (0, ITERATIONS * LENGTH):
        p.log("anchor", {"mono": t, "real": t + 10**18, "raw": t, "ticks": t + 7})
    p.log("rename", {"name": "learner", "role": "learner", "versions": {"numpy": "2"}})
    p.log("device", {"id": 0, "name": "GPU", "sms": 4, "major": 8, "minor": 0})
    p.log("note", {"text": "a note"})
    p.log("loss", {"what": "dropped", "n": 3, "t": 5})
    p.log(
        "loss", {"what": "recording stopped: the disk is full", "n": 0, "t": 4 * LENGTH}
    )
    p.log("child", {"pid": 11, "code": 0, "t": ITERATIONS * LENGTH})
    p.log("kill", {"pid": 11, "signal": 9, "t": ITERATIONS * LENGTH})
    p.log(
        "operator",
        {
            "name": "aten::mm",
            "dims": [[2, 2]],
            "types": ["f"],
            "concrete": [""],
            "calls": [[1]],
        },
    )
    thread = p.thread(tid=10, name="MainThread")
    simulation, inference, phase = map(p.name, ("simulation", "inference", "sgd"))
    wait = p.call(
        layer="wait", fn="os.read", file="/a/vec.py", line=7, func="recv", on="pipe:1"
    )
    backward = p.call(
        layer="backend", fn="Tensor.backward", file="/a/train.py", line=30, func="learn"
    )
    for i in range(ITERATIONS):
        rows = [
            (0, i + 1, Kind.ITERATION, 0),
            (0, i * 9, Kind.CPU_TIME, 0),
            (0, 0, Kind.PHASE, phase),
            (0, 0, Kind.OP_ENTER, simulation),
            (10, 190_000, Kind.CALL, wait),
            (395_000, 2, Kind.STEP, 0),
            (400_000, 0, Kind.OP_EXIT, simulation),
            (400_000, 0, Kind.OP_ENTER, inference),
            (620_000, 0, Kind.ENTER, backward),
            (720_000, 10_000, Kind.CALL, wait),
            (820_000, 0, Kind.EXIT, backward),
            (900_000, 0, Kind.PAUSE, 1),
            (910_000, 1, Kind.RESUME, 0),
            (990_000, 0, Kind.OP_EXIT, inference),
        ]
        time, value, kind, id = np.array(rows).T
        thread.write(time + LENGTH * i + 1, value, kind, id)
        _device(p, LENGTH * i)
    for t in range(0, ITERATIONS * LENGTH, LENGTH // 2):
        _sample(p, t)
    _live_thread(p)
    _stacks(p, thread.id)


def _sample(p: ProcessWriter, t: int) -> None:
    p.log(
        "sample",
        {
            "t": t,
            "threads": {"10": [t // 2, t // 10]},
            "rss": 1 << 20,
            "cores": 0.5,
            "foreign": 0.1,
            "own": t // 90,
        },
    )
    meter = {
        "id": 0,
        "utilisation": 50,
        "memory": 1 << 30,
        "sm_mhz": 900,
        "power_mw": 90_000,
        "energy_mj": t,
    }
    p.log(
        "sample",
        {
            "t": t,
            "gpu": [meter],
            "rapl_uj": {"package": t},
            "power": {"gpu": 90.0, "cpu": 20.0},
        },
    )


def _device(p: ProcessWriter, start: int) -> None:
    api = np.zeros(3, API_DTYPE)
    launch, sync = p.name("cudaLaunchKernel"), p.name("cudaStreamSynchronize")
    api["start"] = np.array([450_000, 650_000, 700_000]) + start
    api["end"] = np.array([470_000, 660_000, 950_000]) + start
    api["correlation"] = np.array([1, 2, 3]) + start
    api["os_thread"], api["name"], api["flags"] = (
        10,
        [launch, launch, sync],
        [0, 0, API_SYNC],
    )
    p.api(api)
    work = np.zeros(3, DEVICE_DTYPE)
    work["start"] = np.array([480_000, 700_000, 900_000]) + start
    work["end"] = np.array([560_000, 900_000, 910_000]) + start
    work["correlation"], work["bytes"] = np.array([1, 2, 0]) + start, [0, 0, 4096]
    work["name"] = [p.name("gemm"), p.name("gemm_backward"), p.name("copy")]
    work["kind"], work["stream"] = (
        [DeviceKind.KERNEL, DeviceKind.KERNEL, DeviceKind.MEMCPY],
        [7, 7, 8],
    )
    work["grid"], work["block"], work["registers"] = (8, 1, 1), (128, 1, 1), 32
    p.device(work)


def _stacks(p: ProcessWriter, thread: int) -> None:
    """Sampled stacks: a stream of their own, and what its frames stand for."""
    p.log("describe", {"facts": {"algorithm": "ppo", "seed": 1}})
    p.log("feeds", {"on": "pipe:1", "tid": 10})
    p.log("code", {"id": 1, "file": "/a/train.py", "func": "learn", "first": 20})
    p.log("frame", {"id": 1, "up": 0, "code": 1, "line": 22})
    p.log("frame", {"id": 2, "up": 1, "code": 1, "line": 23})
    stream = p.thread(tid=0, name="samples")
    p.log("samples", {"stream": stream.id, "torn": 1, "dropped": 0})
    times = np.arange(1, ITERATIONS * LENGTH, LENGTH // 10)
    stream.write(times, 1 + np.arange(len(times)) % 2, Kind.SAMPLE, thread)


def _live_thread(p: ProcessWriter) -> None:
    """A thread that was killed inside a call: a live segment, and its pulse."""
    thread = p.thread(tid=12, name="stuck")
    call = p.call(
        layer="backend", fn="Tensor.item", file="/a/train.py", line=31, func="learn"
    )
    head = np.zeros(1, fmt.SEGMENT_HEAD_DTYPE)
    head["magic"], head["version"], head["thread"] = (
        SEGMENT_MAGIC,
        FORMAT_VERSION,
        thread.id,
    )
    records = fmt.records(
        [7, 1000], 0, [Kind.BEGIN, Kind.OP_ENTER], [0, p.name("inference")]
    )
    (p.folder / f"live-{thread.id}-0.seg").write_bytes(
        head.tobytes() + records.tobytes() + bytes(4096)
    )
    pulse = np.zeros(1, fmt.PULSE_DTYPE)
    pulse["magic"], pulse["version"], pulse["used"] = PULSE_MAGIC, FORMAT_VERSION, 2
    pulse["thread"], pulse["count"], pulse["call"], pulse["since"] = (
        thread.id,
        len(records),
        call,
        2000,
    )
    tail = fmt.records([2000, 3 * LENGTH], 0, [Kind.ENTER, Kind.END], [call, 0])
    slot = bytearray((pulse.tobytes() + tail.tobytes()).ljust(PULSE_SLOT, b"\0"))
    slot[32:36] = _sweep.crc32c(bytes(slot)).to_bytes(4, "little")
    (p.folder / "pulse.bin").write_bytes(bytes(thread.id * PULSE_SLOT) + bytes(slot))


def _worker(run: RunWriter) -> None:
    p = run.process(pid=11, ppid=10, name="worker", role="actor", host="a")
    p.log("anchor", {"mono": 0, "real": 10**18, "raw": 0, "ticks": 7})
    thread = p.thread(tid=11, name="MainThread")
    step = p.call(
        layer="simulator", fn="Sim.step", file="/a/env.py", line=3, func="step"
    )
    start = np.arange(ITERATIONS) * LENGTH + 1
    thread.spans(start, start + LENGTH // 2, ops=[p.name("simulation")] * ITERATIONS)
    p.thread(tid=13).write(start, 1000, Kind.CALL, step)
    p.exit(t=ITERATIONS * LENGTH, code=0)
