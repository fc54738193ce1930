"""The native sweep against its Python twin, over files, with streams of every shape; and the law of sums."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import sweep_twin as twin
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway.analysis.sweep import STEADY, Bins, sweep
from cutaway.trace.format import API_DTYPE, DEVICE_DTYPE
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import API_SYNC, THREAD_LAYERS, DeviceKind, Kind
from effort import effort

pytestmark = pytest.mark.core
BLOCKED_BUSY = ("cpu", "cpu+gpu", "idle", "gpu")

LAYER_OF = {1: "backend", 2: "simulator", 3: "wait", 4: "python", 5: "backend"}
KINDS = [Kind.CALL] * 4 + [Kind.ENTER, Kind.EXIT, Kind.OP_ENTER, Kind.OP_EXIT] * 2
KINDS += [
    Kind.PHASE,
    Kind.PAUSE,
    Kind.RESUME,
    Kind.END,
    Kind.BEGIN,
    Kind.STEP,
    Kind.ITERATION,
]

action = st.tuples(
    st.integers(0, 6), st.integers(0, 5), st.sampled_from(KINDS), st.integers(1, 5)
)
spans = st.tuples(
    st.integers(0, 80), st.integers(0, 15), st.integers(0, 1), st.booleans()
)


@st.composite
def processes(draw):
    threads = []
    for _ in range(draw(st.integers(1, 2))):
        time, records = draw(st.integers(0, 20)), []
        for gap, length, kind, id in draw(st.lists(action, max_size=14)):
            time += gap
            records.append((time, length if kind == Kind.CALL else 0, int(kind), id))
            time += length if kind == Kind.CALL else 0
        threads.append(records)
    api = [
        (s, s + n, t % len(threads), sync)
        for s, n, t, sync in draw(st.lists(spans, max_size=5))
    ]
    work = [(s, s + n, stream) for s, n, stream, _ in draw(st.lists(spans, max_size=6))]
    launches = [draw(st.integers(-1, len(api) - 1)) for _ in work]
    return threads, api, work, launches


def write(folder, *process):
    return write_all(folder, [process])


def write_all(folder, many):
    with RunWriter(folder) as run:
        for pid, process in enumerate(many, 7):
            write_process(run.process(pid=pid), *process)
    return read_run(folder)


def write_process(process, threads, api, work, launches):
    for name in "abcde":
        process.name(name)
    for id, layer in LAYER_OF.items():
        assert process.call(layer=layer, fn=f"f{id}") == id
    for tid, records in enumerate(threads):
        thread = process.thread(tid=100 + tid)
        if records:
            thread.write(*(np.array(column) for column in zip(*records, strict=True)))
    calls = np.zeros(len(api), API_DTYPE)
    for i, (start, end, thread, sync) in enumerate(api):
        calls[i]["start"], calls[i]["end"], calls[i]["correlation"] = start, end, i + 1
        calls[i]["os_thread"], calls[i]["flags"] = 100 + thread, API_SYNC if sync else 0
    process.api(calls)
    device = np.zeros(len(work), DEVICE_DTYPE)
    device["kind"] = DeviceKind.KERNEL
    for i, (start, end, stream) in enumerate(work):
        device[i]["start"], device[i]["end"], device[i]["stream"] = start, end, stream
        device[i]["correlation"] = launches[i] + 1
    process.device(device)


def launched_streams(threads, api, work, launches):
    known = {
        (work[i][2], api[launch][2]) for i, launch in enumerate(launches) if launch >= 0
    }
    orphans = {stream for _, _, stream in work} - {stream for stream, _ in known}
    return {
        t: {s for s, thread in known if thread == t} | orphans
        for t in range(len(threads))
    }


def native_cells(swept):
    out = {}
    for row in zip(*(c.tolist() for c in swept.cells.values()), strict=True):
        c = dict(zip(swept.cells, row, strict=True))
        resources = [
            BLOCKED_BUSY[2 * c["blocked"] + c[busy]]
            for busy in ("busy", "busy_process")
        ]
        key = (
            c["thread"],
            c["phase"],
            c["operation"],
            THREAD_LAYERS[c["layer"]],
            *resources,
        )
        out[key] = out.get(key, 0) + c["ns"]
    return {key: ns for key, ns in out.items() if ns}


def native_lanes(lanes):
    out = {}
    for i, bin in zip(*(at.tolist() for at in np.nonzero(lanes.ns)), strict=True):
        row = {name: int(values[i]) for name, values in lanes.rows.items()}
        resource = BLOCKED_BUSY[2 * row["blocked"] + row["busy"]]
        key = (
            row["thread"],
            row["operation"],
            THREAD_LAYERS[row["layer"]],
            resource,
            bin,
        )
        out[key] = out.get(key, 0) + int(lanes.ns[i, bin])
    return out


def native_transitions(swept):
    out = {}
    s = swept.sites
    for thread, op, source, call, count in zip(
        *(
            s[name].tolist()
            for name in ("thread", "operation", "from", "call", "count")
        ),
        strict=True,
    ):
        made = swept.calls.made[call]
        if not made.is_api:
            id = int(made.call.fn.removeprefix("f"))
            key = thread, op, THREAD_LAYERS[source], id
            out[key] = out.get(key, 0) + count
    return out


@settings(max_examples=effort(150, 40))
@given(processes())
def test_native_sweep_agrees_with_its_twin(process):
    threads, api, work, _ = process
    with tempfile.TemporaryDirectory() as folder:
        trace = write(Path(folder) / "x.cutaway", *process)
        swept = sweep(trace, lanes=[Bins(3, 7, 5), Bins(0, 1, 2, grow=True)])
    expected = twin.cells(threads, LAYER_OF, api, work, launched_streams(*process))
    assert native_cells(swept) == expected
    for lanes in swept.lanes:
        cut = lanes.cut.start, lanes.cut.width, lanes.cut.count
        assert native_lanes(lanes) == twin.lanes(
            cut, threads, LAYER_OF, api, work, launched_streams(*process)
        )
    counted = {
        (index, *key): count
        for index, records in enumerate(threads)
        for key, count in twin.timeline(records, LAYER_OF).transitions.items()
    }
    assert native_transitions(swept) == counted
    # The law: the cells of a thread add up to its traced span.
    for thread in range(len(threads)):
        total = sum(ns for key, ns in expected.items() if key[0] == thread)
        assert swept.threads["traced_ns"][thread] == total


@settings(max_examples=effort(60, 20))
@given(processes())
def test_without_pauses_and_api_the_cells_of_a_thread_add_up_to_its_life(process):
    threads = [
        [r for r in records if r[2] not in (Kind.PAUSE, Kind.RESUME, Kind.END)]
        for records in process[0]
    ]
    with tempfile.TemporaryDirectory() as folder:
        swept = sweep(
            write(
                Path(folder) / "x.cutaway",
                threads,
                [],
                process[2],
                [-1] * len(process[2]),
            )
        )
    for index, records in enumerate(threads):
        span = max(t + v for t, v, _, _ in records) - records[0][0] if records else 0
        assert swept.cells["ns"][swept.cells["thread"] == index].sum() == span


@settings(max_examples=effort(60, 20))
@given(st.lists(processes(), min_size=2, max_size=4))
def test_processes_are_swept_alike_alone_and_together(many):
    with tempfile.TemporaryDirectory() as folder:
        alone = [
            sweep(write(Path(folder) / f"{i}.cutaway", *one))
            for i, one in enumerate(many)
        ]
        trace = write_all(Path(folder) / "all.cutaway", many)
        whole = sweep(trace)
    first = 0
    together = native_cells(whole)
    for one in alone:
        own = {
            (key[0] - first, *key[1:]): ns
            for key, ns in together.items()
            if 0 <= key[0] - first < len(one.thread_names)
        }
        assert own == native_cells(one)
        first += len(one.thread_names)
    # What is looked for before the sweep is what the sweep finds.
    assert whole.pace.own_steady.tolist() == [
        int(one.pace.own_steady[0]) for one in alone
    ]
    starts = [int(time) for time in whole.pace.own_steady if time]
    if starts:
        assert whole.stages.steady_ns == min(starts) and not whole.stages.by_first_work
    assert not starts or {
        one.stages.steady_ns for one in alone if one.pace.own_steady[0]
    } == {*starts}
    if not len(whole.pace.iterations["process"]):
        assert whole.stages.steady_ns == 0 and set(whole.cells["slice"].tolist()) <= {
            STEADY
        }


def test_of_a_thread_that_is_read_on_a_core_of_its_own_nothing_is_lost(tmp_path):
    rng, n = np.random.default_rng(1), 1 << 18
    gap, length, which = (
        rng.integers(1, 900, n),
        rng.integers(1, 9000, n),
        rng.integers(0, 2, n),
    )
    with RunWriter(tmp_path / "r.cutaway", command="x") as run:
        process = run.process(pid=1)
        ids = [
            process.call(layer=layer, fn=layer) for layer in ("backend", "simulator")
        ]
        start = np.cumsum(gap) + np.cumsum(length) - length
        process.thread(tid=1).write(start, length, Kind.CALL, np.array(ids)[which])
    swept = sweep(read_run(tmp_path / "r.cutaway"))
    found = {
        layer: (
            int(swept.cells["ns"][swept.cells["layer"] == i].sum()),
            int(swept.cells["calls"][swept.cells["layer"] == i].sum()),
        )
        for i, layer in enumerate(THREAD_LAYERS)
    }
    assert found["python"] == (gap[1:].sum(), 0)
    assert found["backend"] == (length[which == 0].sum(), (which == 0).sum())
    assert found["simulator"] == (length[which == 1].sum(), (which == 1).sum())
    assert swept.threads["events"].tolist() == [n]
