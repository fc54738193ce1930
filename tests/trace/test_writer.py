"""Writing runs: what is written is read back, in the order and nesting the format asks for."""

import stat

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cutaway
from cutaway.trace import format as fmt
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter, span_records
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

spans = st.lists(
    st.tuples(
        st.integers(0, 30),
        st.integers(0, 10),
        st.sampled_from([Kind.ENTER, Kind.OP_ENTER]),
    ),
    max_size=8,
)


@given(spans)
def test_spans_in_any_order_become_ordered_records_of_the_same_length(spans):
    start = np.array([s for s, _, _ in spans], int)
    end = start + np.array([n for _, n, _ in spans], int)
    kind = np.array([k for _, _, k in spans], int)
    records = span_records(start, end, kind, np.arange(len(spans)))
    assert records["time"].tolist() == sorted(records["time"].tolist())
    opened, found = {}, {}
    for time, kind, id in zip(
        records["time"], fmt.kinds(records), fmt.ids(records), strict=True
    ):
        if kind in (Kind.ENTER, Kind.OP_ENTER):
            opened[int(id)] = int(time)
        else:
            found[int(id)] = (opened.pop(int(id)), int(time))
    assert found == {
        i: (int(a), int(b)) for i, (a, b) in enumerate(zip(start, end, strict=True))
    }


def test_of_spans_that_start_together_the_longer_is_the_parent():
    records = span_records([5, 5, 5], [9, 30, 5], Kind.ENTER, [1, 2, 3])
    assert fmt.ids(records).tolist() == [2, 1, 3, 3, 1, 2]


def test_a_stream_written_in_pieces_is_read_back_whole(tmp_path):
    rng = np.random.default_rng(0)
    time = np.cumsum(rng.integers(0, 1 << 40, 200_000, dtype=np.uint64))
    value = rng.integers(0, 1 << 32, len(time))
    kind, id = rng.integers(1, 14, len(time)), rng.integers(0, 1 << 24, len(time))
    with RunWriter(tmp_path / "run.cutaway") as run:
        thread = run.process(pid=1).thread(tid=1)
        for at in range(0, len(time), 37_123):
            piece = slice(at, at + 37_123)
            thread.write(time[piece], value[piece], kind[piece], id[piece])
    process = read_run(tmp_path / "run.cutaway").processes[0]
    read = np.concatenate(list(process.records(0)))
    np.testing.assert_array_equal(read, fmt.records(time, value, kind, id))


def test_device_records_come_back_in_order_of_start(tmp_path):
    rng = np.random.default_rng(0)
    api, work = np.zeros(5000, fmt.API_DTYPE), np.zeros(5000, fmt.DEVICE_DTYPE)
    for records in (api, work):
        records["start"] = rng.permutation(5000)
        records["end"] = records["start"] + 1
    with RunWriter(tmp_path / "run.cutaway") as run:
        process = run.process(pid=1)
        for piece in np.array_split(np.arange(5000), 7):
            process.api(api[piece])
            process.device(work[piece])
    process = read_run(tmp_path / "run.cutaway").processes[0]
    np.testing.assert_array_equal(process.api(), api[np.argsort(api["start"])])
    np.testing.assert_array_equal(process.device(), work[np.argsort(work["start"])])


def test_names_and_calls_are_written_once_and_read_back(tmp_path):
    with RunWriter(tmp_path / "run.cutaway", command="train.py") as run:
        process = run.process(pid=1, name="wörk ☃")
        assert process.name("inférence") == process.name("inférence") == 1
        call = process.call(
            layer="wait", fn="read", file="a.py", line=3, func="f", on="pipe:7"
        )
        process.exit(t=5, signal=9)
    log = read_run(tmp_path / "run.cutaway").processes[0].log
    assert log.names == {1: "inférence"}
    assert log.calls[call] == ("wait", "read", "a.py", 3, "f", "pipe:7", "")
    table = cutaway.open(tmp_path / "run.cutaway").processes()
    assert (table["name"][0], table["exit"][0]) == ("wörk ☃", "signal 9")


def test_a_run_is_private(tmp_path):
    RunWriter(tmp_path / "run.cutaway").close()
    assert stat.S_IMODE((tmp_path / "run.cutaway").stat().st_mode) == 0o700
