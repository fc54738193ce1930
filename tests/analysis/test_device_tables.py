"""Tables about device work, against the same made in plain Python from all records at once."""

from __future__ import annotations

from collections import defaultdict
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cutaway
from cutaway import _sweep
from cutaway.analysis.devices import UNATTRIBUTED, WHOLE_RUN, Busy
from cutaway.analysis.run import Run
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import DEVICE_LAYERS, Kind

pytestmark = pytest.mark.core


def random_run(folder: Path, seed: int) -> Run:
    """Processes that share devices; calls of other threads, of the same correlation, after their work, or missing."""
    rng = np.random.default_rng(seed)
    with RunWriter(folder) as run:
        for pid in (1, 2, 3):
            process, n = run.process(pid=pid), int(rng.integers(1, 3000))
            names = [process.name(f"op{i}") for i in range(4)]
            time = np.sort(rng.integers(1, 20_000, 40))
            enters = np.tile([Kind.OP_ENTER, Kind.OP_EXIT], 20)
            process.thread(tid=pid).write(
                time, 0, enters, np.repeat(rng.choice(names, 20), 2)
            )
            api, work = np.zeros(n, fmt.API_DTYPE), np.zeros(n, fmt.DEVICE_DTYPE)
            api["start"] = np.sort(rng.integers(1000, 20_000, n))
            api["end"] = api["start"] + rng.integers(0, 60, n).astype(np.uint64)
            api["os_thread"], api["name"] = (
                rng.choice([pid, 77], n),
                rng.choice(names, n),
            )
            ids = np.arange(1, n + 1) * int(rng.choice([1, 977]))
            api["correlation"] = np.where(
                rng.random(n) < 0.1, rng.integers(0, n, n), ids
            )
            api["operation"] = np.where(rng.random(n) < 0.2, rng.choice(names, n), 0)
            work["start"] = (
                api["start"]
                + rng.integers(0, 3000, n).astype(np.uint64)
                - np.uint64(300)
            )
            work["end"] = work["start"] + rng.integers(0, 800, n).astype(np.uint64)
            work["correlation"] = np.where(
                rng.random(n) < 0.1, rng.integers(0, 5 * n, n), ids
            )
            work["operation"] = np.where(rng.random(n) < 0.1, rng.choice(names, n), 0)
            work["kind"], work["name"] = rng.integers(1, 7, n), rng.choice(names, n)
            work["device"], work["stream"] = (
                rng.integers(0, 2, n),
                rng.integers(0, 3, n),
            )
            process.api(api)
            process.device(work[rng.permutation(n)])
            process.exit(t=30_000, code=0)
    return cutaway.open(folder)


def operation_at(process: ProcessTrace, time: int) -> int:
    """What the one thread with operations is in; the thread that only makes API calls works for it."""
    inside: list[int] = []
    for event in chain.from_iterable(process.events(0)):
        if event["time"] > time:
            break
        if event["kind"] == Kind.OP_ENTER:
            inside.append(int(event["id"]))
        elif event["kind"] == Kind.OP_EXIT and event["id"] in inside:
            inside.remove(event["id"])
    return inside[-1] if inside else 0


def launched(run: Run) -> list[dict[str, Any]]:
    """Each piece of work with the first call of its correlation."""
    out = []
    for index, process in enumerate(run.trace.processes):
        api = process.api()
        first = {
            id: i
            for i, id in reversed(list(enumerate(api["correlation"].tolist())))
            if id
        }
        for record in process.device():
            if record["kind"] in DEVICE_LAYERS:
                row = {
                    name: int(record[name])
                    for name in ("start", "end", "device", "stream", "kind", "name")
                }
                call = first.get(int(record["correlation"]))
                made = None if call is None else api[call]
                id = int(record["operation"])
                if made is not None:
                    id = id or int(made["operation"])
                    id = id or operation_at(process, int(made["start"]))
                name = UNATTRIBUTED
                if id or made is not None:
                    name = process.log.name(id)
                out.append({**row, "process": index, "operation": name, "call": made})
    return out


@pytest.mark.parametrize("seed", range(6))
def test_busy_time_counts_each_nanosecond_once(tmp_path: Path, seed: int):
    run = random_run(tmp_path / "a.cutaway", seed)
    by, edges = ("device", "operation"), np.array([2000, 5000, 5001, 9000])
    expected: dict[tuple[int, str], set[int]] = defaultdict(set)
    for row in launched(run):
        expected[row["device"], row["operation"]] |= set(
            range(row["start"], row["end"])
        )
    (found,) = run.swept.devices.busy(Busy(by=by, edges=edges))
    rows = {(row["device"], row["operation"]): row for row in found}
    assert {key: row["ns"] for key, row in rows.items()} == {
        key: len(t) for key, t in expected.items()
    }
    for key, busy in expected.items():
        assert (
            rows[key]["bins"]
            == np.histogram(list(busy), [2000, 5000, 5001, 9000 - 1e-9])[0].tolist()
        )


@pytest.mark.parametrize("seed", range(3))
def test_the_time_of_an_operation_on_a_device_counts_once(tmp_path: Path, seed: int):
    run = random_run(tmp_path / "a.cutaway", seed)
    expected: dict[tuple[Any, ...], set[int]] = defaultdict(set)
    counts: dict[tuple[Any, ...], int] = defaultdict(int)
    for row in launched(run):
        key = (
            row["process"],
            row["device"],
            row["operation"],
            DEVICE_LAYERS[row["kind"]],
        )
        expected[key] |= set(range(row["start"], row["end"]))
        counts[key] += 1
    by = ("process", "device", "operation", "layer")
    found = {
        tuple(row[n] for n in by): (row["ns"], row["count"])
        for row in run.device_time()
    }
    assert found == {key: (len(t), counts[key]) for key, t in expected.items()}


@pytest.mark.parametrize("seed", range(3))
def test_nvidia_smi_counts_periods_with_a_kernel_in_them(tmp_path: Path, seed: int):
    """Of all processes together: work of several in one period counts once."""
    run = random_run(tmp_path / "a.cutaway", seed)
    first, end = 1500, 19_000
    expected: dict[int, set[int]] = defaultdict(set)
    for row in launched(run):
        expected[row["device"]] |= set(
            range(max(row["start"], first), min(row["end"], end))
        )
    found = run.swept.devices.used(WHOLE_RUN, (first, end))
    assert dict(zip(found["device"].tolist(), found["ns"].tolist(), strict=True)) == {
        device: len(times) for device, times in expected.items()
    }
    assert set(found["short"].tolist()) == set(found["long"].tolist()) == {1}


@pytest.mark.parametrize("seed", range(6))
def test_kernels_know_their_launch_and_their_queue(tmp_path: Path, seed: int):
    run = random_run(tmp_path / "a.cutaway", seed)
    expected: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    streams: dict[tuple[int, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in launched(run):
        if row["call"] is not None:
            streams[row["process"], row["device"], row["stream"]].append(row)
    for row in launched(run):
        sums = expected[
            tuple(
                row[name]
                for name in ("process", "device", "stream", "operation", "kind", "name")
            )
        ]
        sums[0] += row["end"] - row["start"]
        if row["call"] is not None:
            at, others = (
                row["call"]["start"],
                streams[row["process"], row["device"], row["stream"]],
            )
            ahead = sum(other["call"]["start"] < at for other in others) - sum(
                other["start"] <= at for other in others
            )
            sums[1] += 1
            sums[2] += row["start"] - int(row["call"]["end"])
            sums[3] += max(0, int(ahead))
    found = run.swept.devices.by_launch(WHOLE_RUN)
    by = ("process", "device", "stream", "operation", "kind", "name")
    table = found.group(by, ["ns", "launched", "launch_ns", "queue"])
    columns = [table[name].tolist() for name in table.columns]
    assert {row[:6]: list(row[6:]) for row in zip(*columns, strict=True)} == expected


def test_periods_are_those_of_nvidia_smi():
    """Of 6 s in periods of 1 s, kernels ran in the first two, across an edge, and in the last."""
    starts, ends = np.array([[0, 1.5, 5.9], [0.1, 2.0, 9.0]]) * 1e9
    short, long = _sweep.periods(starts.astype(int), ends.astype(int), 0, 6_000_000_000)
    assert long == 3
    assert short == len({*range(1), *range(9, 13), *range(35, 37)})
