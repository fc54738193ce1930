"""A run that keeps its last stretch in full has the totals of the whole run, to the nanosecond."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import cutaway
from cutaway.analysis.progress import bins
from cutaway.analysis.stages import find_beginning
from cutaway.analysis.sweep import Swept, sweep
from cutaway.errors import CutawayError
from cutaway.keep import Keeper
from cutaway.trace import format as fmt
from cutaway.trace.past import write_past
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.trace.writer import ProcessWriter, RunWriter
from cutaway.vocabulary import Kind
from effort import effort

pytestmark = pytest.mark.core

LAYERS = {1: "backend", 2: "simulator", 3: "wait", 4: "python", 5: "native"}
NAMES = ("simulation", "inference", "backpropagation", "replay", "evaluation")
KINDS = [Kind.CALL] * 6 + [Kind.ENTER, Kind.EXIT, Kind.OP_ENTER, Kind.OP_EXIT] * 2
KINDS += [
    Kind.PHASE,
    Kind.PAUSE,
    Kind.RESUME,
    Kind.END,
    Kind.STEP,
    Kind.ITERATION,
    Kind.CPU_TIME,
]
action = st.tuples(
    st.integers(0, 9), st.integers(0, 9), st.sampled_from(KINDS), st.integers(1, 5)
)
FAR = 10**9


@st.composite
def threads(draw):
    """Streams of one process, each in blocks; its second iteration is at 2, later, or never."""
    out, first = [], draw(st.sampled_from([2, 2, 1, 0]))
    for index in range(draw(st.integers(1, 3))):
        time, blocks = 3, [[(0, 0, Kind.BEGIN, 0)]]
        if not index:
            blocks[0] += [(1, 1, Kind.ITERATION, 0), (2, 2, Kind.ITERATION, 0)][:first]
        for block in draw(
            st.lists(st.lists(action, min_size=1, max_size=9), max_size=5)
        ):
            blocks.append([])
            for gap, length, kind, id in block:
                time += gap
                value = length if kind in (Kind.CALL, Kind.STEP, Kind.ITERATION) else 0
                if kind == Kind.ITERATION and not first:
                    kind = Kind.STEP
                blocks[-1].append((time, value, int(kind), id))
                time += length if kind == Kind.CALL else 0
        # One that was killed ends with its last record.
        out.append(
            [*blocks, [(time + 400, 0, Kind.END, 0)]]
            if draw(st.integers(0, 3))
            else blocks
        )
    return out


def write(
    folder: Path,
    streams: list,
    named: bool,
    worker: list | None = None,
    work: tuple | None = None,
) -> None:
    """A process with these threads, and one more without iterations, which follows it."""
    with RunWriter(folder) as run:
        process = run.process(pid=7)
        write_process(process, streams, named)
        if work:
            write_devices(process, *work)
        if worker:
            write_process(run.process(pid=8), worker, named)


def write_process(process: ProcessWriter, streams: list, named: bool) -> None:
    for name in NAMES if named else "abcde":
        process.name(name)
    for id, layer in LAYERS.items():
        assert process.call(layer=layer, fn=f"f{id}") == id
    process.log("anchor", {"mono": FAR, "real": FAR, "raw": FAR, "ticks": FAR})
    for tid, blocks in enumerate(streams):
        thread = process.thread(tid=100 + tid)
        for block in blocks:
            thread.write(*(np.array(column) for column in zip(*block, strict=True)))
            thread.flush()


def write_devices(process: ProcessWriter, calls: list, works: list) -> None:
    """API calls and device work, a few in each block, as a collector writes them: in order of their ends."""
    api = np.zeros(len(calls), fmt.API_DTYPE)
    for row, (start, length, correlation, thread, sync) in zip(api, calls, strict=True):
        row["start"], row["end"], row["correlation"] = (
            start,
            start + length,
            correlation,
        )
        row["os_thread"], row["name"], row["flags"] = (
            100 + thread,
            1 + correlation % 3,
            sync,
        )
    device = np.zeros(len(works), fmt.DEVICE_DTYPE)
    for row, (start, length, correlation, kind, place) in zip(
        device, works, strict=True
    ):
        row["start"], row["end"], row["correlation"], row["kind"] = (
            start,
            start + length,
            correlation,
            kind,
        )
        row["device"], row["stream"], row["name"] = (
            place // 2,
            place % 2,
            1 + length % 3,
        )
        row["operation"], row["bytes"] = (4 if correlation == 5 else 0), length * 10
        row["grid"][0], row["block"][0], row["shared_static"] = (
            1 + length % 2,
            64,
            8 * (length % 2),
        )
    for writer, records in ((process._api, api), (process._work, device)):
        records = records[np.argsort(records["end"], kind="stable")]
        for at in range(0, len(records), 3):
            writer.append(records[at : at + 3])
            writer.flush()


calls = st.lists(
    st.tuples(
        st.integers(0, 250),
        st.integers(0, 20),
        st.integers(0, 12),
        st.integers(0, 3),
        st.integers(0, 1),
    ),
    max_size=12,
)
works = st.lists(
    st.tuples(
        st.integers(0, 300),
        st.integers(0, 30),
        st.integers(0, 14),
        st.integers(1, 6),
        st.integers(0, 3),
    ),
    max_size=14,
)


def swept(folder: Path) -> Swept:
    trace = read_run(folder)
    return sweep(trace, lanes=[bins(trace)])


def keep(folder: Path, until: list[int], restarts: bool = False) -> int:
    """Folds the run step by step; returns how many bytes of its events are covered."""
    keeper = Keeper(read_run(folder), 0)
    second = find_beginning(keeper.trace).second_iteration
    for time in sorted(until):
        if restarts:
            keeper = Keeper(read_run(folder), 0)
        else:
            keeper.trace.refresh()
        keeper.find_beginning()
        assert keeper.steady_ns == second
        if time <= second:  # it has not happened yet
            keeper.steady_ns, keeper.edge_ns = (
                0,
                keeper.edge_ns or find_beginning(keeper.trace).first_work,
            )
        for process in keeper.trace.processes:
            keeper.take(process, time)
    past = read_run(folder).processes[0].past
    return past.offset if past else 0


BEGINS, ENDS = (
    [(0, 0, Kind.BEGIN, 0), (1, 1, Kind.ITERATION, 0), (2, 2, Kind.ITERATION, 0)],
    [(403, 0, Kind.END, 0)],
)
# The past ends while a step goes on, after something that acts.
ACTS_AND_STEPS = [
    (3, 0, Kind.ENTER, 1),
    (3, 0, Kind.OP_ENTER, 2),
    (3, 0, Kind.OP_EXIT, 2),
    (3, 0, Kind.OP_ENTER, 1),
]
INSIDE_AN_ANCHOR = [[BEGINS, ENDS]], [[BEGINS, ACTS_AND_STEPS, ENDS]], [4], True

TABLES = (
    "cells",
    "sites",
    "operations",
    "samples",
    "threads",
    "pace.iterations",
    "pace.pauses",
    "pace.slowest",
    "pace.durations",
    "held.by_process",
)


def rows(columns) -> tuple:
    """Rows in one order: which cell was there first says nothing."""
    return tuple(columns), sorted(
        zip(*(v.tolist() for v in columns.values()), strict=True)
    )


def assert_same(kept: Swept, full: Swept) -> None:
    for table in TABLES:
        a, b = attrgetter(table)(kept), attrgetter(table)(full)
        assert rows(a) == rows(b), table
    assert (kept.pace.steps.tolist(), kept.pace.steps_startup.tolist()) == (
        full.pace.steps.tolist(),
        full.pace.steps_startup.tolist(),
    )
    assert (
        kept.stages.steady_ns == full.stages.steady_ns
        and kept.held.cpu_span == full.held.cpu_span
    )
    assert [u.tolist() for u in kept.units] == [u.tolist() for u in full.units]
    if len(kept.pace.steps) == 1:  # over several processes that takes all their events
        assert {k: v.tolist() for k, v in kept.conditions.items()} == {
            k: v.tolist() for k, v in full.conditions.items()
        }
    one, other = kept.lanes[0], full.lanes[0]
    assert one.cut == other.cut
    assert rows({**one.rows, "ns": one.ns}) == rows({**other.rows, "ns": other.ns})
    assert (one.steps.tolist(), one.iterations.tolist()) == (
        other.steps.tolist(),
        other.iterations.tolist(),
    )


@given(
    threads(),
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=effort(120, 15), deadline=None)
def test_totals_are_those_of_the_full_recording(streams, until, named, restarts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.cutaway"
        write(path, streams, named)
        full = swept(path)
        keep(path, until, restarts)
        assert_same(swept(path), full)


@given(
    threads(),
    st.tuples(calls, works),
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=effort(150, 15), deadline=None)
@example(  # the namer holds a thread back to before what has been read of the device
    [
        [
            [(0, 0, 12, 0), (1, 1, 7, 0), (2, 2, 7, 0)],
            [(6, 0, 9, 1), (6, 0, 1, 1), (7, 0, 5, 1), (7, 1, 1, 1)],
        ]
    ],
    ([], [(0, 0, 0, 1, 0), (6, 0, 0, 1, 0)]),
    [8],
    True,
    False,
)
def test_device_work_adds_up_to_the_same(streams, work, until, named, restarts):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.cutaway"
        write(path, streams, named, work=work)
        full, tables = swept(path), device_tables(path)
        keep(path, until, restarts)
        assert_same(swept(path), full)
        assert device_tables(path) == tables


def test_the_energy_of_a_device_is_divided_by_its_totals(tmp_path: Path):
    """All time is one window: 300 units of work of one operation and 100 of another share 8 J as 3 to 1."""
    path = tmp_path / "r.cutaway"
    inside = [
        (10, 0, Kind.OP_ENTER, 1),
        (30, 0, Kind.OP_EXIT, 1),
        (40, 0, Kind.OP_ENTER, 2),
        (60, 0, Kind.OP_EXIT, 2),
    ]
    with RunWriter(path) as run:
        process = run.process(pid=7)
        write_process(
            process,
            [[BEGINS, inside, [(i, 1, Kind.CALL, 2) for i in range(70, 600, 3)]]],
            False,
        )
        work = [(20, 300, 1, 1, 0), (400, 100, 2, 1, 0)]
        write_devices(process, [(15, 5, 1, 0, 0), (45, 5, 2, 0, 0)], work)
        for t, energy in ((5, 1000), (550, 9000)):
            process.log("sample", {"t": t, "gpu": [{"id": 0, "energy_mj": energy}]})
    keep(path, [500])
    run = cutaway.open(path)
    assert any(run.swept.devices.kept)
    first, second = (run.trace.processes[0].log.name(id) for id in (1, 2))
    found = run.energy()["gpu_joules"]
    assert found[first] == pytest.approx(6.0) and found[second] == pytest.approx(2.0)
    assert sum(found.values()) == pytest.approx(8.0)


def device_tables(path: Path) -> dict:
    """Everything that is said about devices, of the whole run and of its parts."""
    whole, found = cutaway.open(path), {}
    for run in (whole, whole.startup(), whole.steady(), whole.shutdown()):
        tables = {
            "kernels": run.kernels(),
            "launched_work": run.launched_work(),
            "launch_waits": run.launch_waits(),
        }
        tables |= {
            "device_time": run.device_time(),
            "by_operation": run.device_time(layers=False),
        }
        found[run.part] = {
            name: sorted(map(str, table)) for name, table in tables.items()
        }
        found[run.part]["utilisation"] = run.utilisation()
    return found


@given(
    threads(),
    threads(),
    st.lists(st.integers(0, 300), min_size=1, max_size=4),
    st.booleans(),
)
@settings(max_examples=effort(40, 10), deadline=None)
@example(*INSIDE_AN_ANCHOR)
def test_a_worker_follows_the_process_with_iterations(streams, worker, until, named):
    marks = (Kind.ITERATION, Kind.RESUME)
    quiet = [
        [[r for r in block if r[2] not in marks] for block in blocks]
        for blocks in worker
    ]
    quiet = [[block for block in blocks if block] for blocks in quiet]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r.cutaway"
        write(path, streams, named, quiet)
        full = swept(path)
        keep(path, until)
        assert_same(swept(path), full)


def test_a_thread_that_tells_nothing_any_more_ends_with_its_last_record(
    tmp_path: Path, monkeypatch
):
    """It was killed. Its records are in the past, and its segment is empty."""
    path = tmp_path / "r.cutaway"
    killed = [BEGINS, [(10, 5, Kind.CALL, 1), (20, 0, Kind.OP_ENTER, 1)]]
    other = [
        [(0, 0, Kind.BEGIN, 0)],
        [(i, 1, Kind.CALL, 2) for i in range(3, 300, 3)],
        ENDS,
    ]
    write(path, [killed, other], False)
    full = swept(path)
    keep(path, [18])
    last = ProcessTrace.last_record
    monkeypatch.setattr(
        ProcessTrace,
        "last_record",
        lambda self, id: None if id == 0 else last(self, id),
    )
    keep(path, [250])
    assert_same(swept(path), full)


def test_device_records_that_come_too_late_are_counted(tmp_path: Path):
    path = tmp_path / "r.cutaway"
    blocks = [BEGINS, [(i, 1, Kind.CALL, 2) for i in range(3, 300, 3)], ENDS]
    early = ([(20, 5, 1, 0, 0)], [(30, 10, 1, 1, 0)])
    with RunWriter(path) as run:
        process = run.process(pid=7)
        write_process(process, [blocks], False)
        write_devices(process, *early)
        process.flush()
        keep(path, [150])
        write_devices(process, [], [(40, 200, 1, 1, 0)])
    run = cutaway.open(path)
    (row,) = run.device_time(layers=False)
    assert (row["count"], row["ns"]) == (2, 10 + 240 - 150)
    assert (
        read_run(path).processes[0].look_at_devices().late == 1
        and sum(run.losses().values()) == 1
    )


def test_totals_of_another_version_are_not_taken_for_damaged(
    tmp_path: Path, monkeypatch
):
    path = tmp_path / "r.cutaway"
    blocks = [BEGINS, [(i, 1, Kind.CALL, 2) for i in range(3, 300, 3)], ENDS]
    write(path, [blocks], False)
    monkeypatch.setattr("cutaway.trace.past.LAYOUT", 1)
    keep(path, [150])
    monkeypatch.undo()
    with pytest.raises(CutawayError, match="the version that recorded it"):
        cutaway.open(path)


@pytest.mark.parametrize("which", ["state", "devices"])
def test_totals_that_make_no_sense_are_a_sentence_or_figures_but_never_a_crash(
    tmp_path: Path, which: str
):
    path = tmp_path / "r.cutaway"
    blocks = [
        [
            (3 + 10 * i, 4, Kind.CALL, 1 + i % 5),
            (8 + 10 * i, 0, Kind.OP_ENTER, 1 + i % 3),
        ]
        for i in range(20)
    ]
    launches = [(5 * i, 7, 1 + i, i % 2, i % 3 == 0) for i in range(20)]
    ran = [(5 * i + 3, 60, 1 + i, 1 + i % 4, i % 4) for i in range(20)]
    write(path, [[BEGINS, *blocks]], True, work=(launches, ran))
    keep(path, [90])
    process = read_run(path).processes[0]
    sound, random = process.past, np.random.default_rng(5)
    assert sound is not None and sound.offset > 0
    right = sound.state if which == "state" else sound.devices.state
    for _ in range(effort(150, 60)):
        state = right.copy()
        at = random.integers(0, len(state) - 8)
        state[at : at + 8] = random.choice([0, 1, 127, 255], 8)
        state = state[: random.choice([len(state), at])]
        devices = replace(sound.devices, state=state)
        changed = {"state": state} if which == "state" else {"devices": devices}
        write_past(process.folder, replace(sound, **changed))
        try:
            swept(path)
        except CutawayError as error:
            assert "past.bin is damaged" in str(error)


def test_space_is_given_back_and_what_is_left_can_be_read(tmp_path: Path):
    path = tmp_path / "r.cutaway"
    many = [
        [(10 * k + j, 1, Kind.CALL, 1 + j % 5) for j in range(3, 9)]
        for k in range(20_000)
    ]
    blocks = [
        [r for part in many[i : i + 500] for r in part]
        for i in range(0, len(many), 500)
    ]
    write(
        path,
        [
            [
                [
                    (0, 0, Kind.BEGIN, 0),
                    (1, 1, Kind.ITERATION, 0),
                    (2, 2, Kind.ITERATION, 0),
                ],
                *blocks,
            ]
        ],
        False,
    )
    events = next(path.glob("p*/events.bin"))
    full, before = swept(path), events.stat().st_blocks
    keep(path, [100_000, 190_000])
    assert_same(swept(path), full)
    assert sum(cutaway.open(path).losses().values()) == 0
    assert events.stat().st_blocks < before / 4


def many_iterations(count: int) -> list:
    """One thread: each pass has a call and two steps, and takes 100 ns; some are paused for a while, or for the next two passes."""
    blocks, block = [], [(0, 0, Kind.BEGIN, 0)]
    for i in range(count):
        at, block = 100 * i + 1, [] if i % 1000 == 0 and i else block
        if i % 1000 == 0:
            blocks.append(block)
        skipped = i % 97 in (51, 52)
        if not skipped:
            block += [
                (at, i + 1, Kind.ITERATION, 0),
                (at + 5, 10 + i % 7, Kind.CALL, 1),
                (at + 30, 2, Kind.STEP, 0),
            ]
        if i % 97 == 50:
            block += [(at + 60, 0, Kind.PAUSE, 1)]
        if i % 97 == 52:
            block += [(at + 20, 4, Kind.RESUME, 2), (at + 30, 2, Kind.STEP, 0)]
        if i % 13 == 3 and i % 97 not in (50, 51, 52):
            block += [
                (at + 40, 0, Kind.PAUSE, 3),
                (at + 60 + i % 11, 0, Kind.RESUME, 0),
            ]
    return [*blocks, [(100 * count + 1, 0, Kind.END, 0)]]


def test_old_iterations_become_coarser_and_their_sums_stay_exact(tmp_path: Path):
    path, count = tmp_path / "r.cutaway", 100_000
    write(path, [many_iterations(count)], False)
    full = cutaway.open(path)
    whole, slowest, steady = (
        full.iterations(),
        full.slowest(),
        full.swept.pace.durations,
    )
    sizes = []
    for until in range(1_000_000, 100 * count, 1_000_000):
        keep(path, [until])
        sizes.append(len(read_run(path).processes[0].past.state))
    assert sizes[-1] < 1.3 * sizes[len(sizes) // 3]
    kept = cutaway.open(path)
    coarse = kept.iterations()
    assert len(coarse) < 33_000 < len(whole) and 1 < coarse["count"].max() <= 16
    assert int(coarse["count"].sum()) == len(whole) and int(
        coarse["steps"].sum()
    ) == int(whole["steps"].sum())
    at = np.searchsorted(whole["iteration"], coarse["iteration"])
    lasted = whole["end_ns"] - whole["start_ns"]
    assert (np.add.reduceat(lasted, at) == coarse["end_ns"] - coarse["start_ns"]).all()
    assert (np.add.reduceat(whole["steps"], at) == coarse["steps"]).all()
    recorded = np.add.reduceat(whole["recorded"] * lasted, at)
    assert np.allclose(
        recorded,
        coarse["recorded"] * (coarse["end_ns"] - coarse["start_ns"]),
        rtol=1e-9,
    )
    assert list(kept.slowest()) == list(slowest)
    assert {k: v.tolist() for k, v in kept.swept.pace.durations.items()} == {
        k: v.tolist() for k, v in steady.items()
    }
    assert (
        kept.main_process == full.main_process
        and len(coarse.where(coarse["start_ns"] > kept.full_since)["count"]) > 0
    )
