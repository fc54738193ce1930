"""Tables about device work, against the same made in plain Python from all records at once."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cutaway
from cutaway.analysis.devices import UNATTRIBUTED, Busy
from cutaway.analysis.run import Run
from cutaway.trace import format as fmt
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


def launched(run: Run) -> list[dict[str, Any]]:
    """Each piece of work with the first call of its correlation."""
    out = []
    for index, process in enumerate(run.trace.processes):
        api, operations = process.api(), run.swept.api_operation[index]
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
                id = int(record["operation"]) or (
                    int(operations[call]) if call is not None else None
                )
                name = UNATTRIBUTED if id is None else process.log.name(id)
                made = None if call is None else api[call]
                out.append({**row, "process": index, "operation": name, "call": made})
    return out


@pytest.mark.parametrize("seed", range(6))
def test_busy_time_counts_each_nanosecond_once(tmp_path: Path, seed: int):
    run = random_run(tmp_path / "a.cutaway", seed)
    by, edges = ("device", "operation"), np.array([2000, 5000, 5001, 9000])
    expected: dict[tuple[int, str], set[int]] = defaultdict(set)
    for row in launched(run):
        if row["start"] >= 1500:
            expected[row["device"], row["operation"]] |= set(
                range(row["start"], row["end"])
            )
    (found,) = run.swept.devices.busy(Busy(by=by, start=(1500, 1 << 62), edges=edges))
    rows = {(row["device"], row["operation"]): row for row in found}
    assert {key: row["ns"] for key, row in rows.items()} == {
        key: len(t) for key, t in expected.items()
    }
    for key, busy in expected.items():
        assert (
            rows[key]["bins"]
            == np.histogram(list(busy), [2000, 5000, 5001, 9000 - 1e-9])[0].tolist()
        )


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
    found = run.swept.devices.kernels((0, 1 << 62), None, with_queue=True)
    by = ("process", "device", "stream", "operation", "kind", "name")
    table = found.group(by, ["ns", "launched", "launch_ns", "queue"])
    columns = [table[name].tolist() for name in table.columns]
    assert {row[:6]: list(row[6:]) for row in zip(*columns, strict=True)} == expected
