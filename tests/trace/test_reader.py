"""Reading runs: whole, still being written, torn, truncated, bit-flipped. Nothing is fatal, all of it counted."""

import json
import shutil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutaway
from cutaway import _sweep
from cutaway.errors import CutawayError
from cutaway.trace import format as fmt
from cutaway.trace.log import Log, read_log
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import FORMAT_VERSION, SEGMENT_MAGIC, Clock, DeviceKind, Kind
from effort import effort

pytestmark = pytest.mark.core

BLOCKS, IN_BLOCK = 5, 200


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A run with five blocks of one thread, API calls and device work."""
    folder = tmp_path_factory.mktemp("whole") / "run.cutaway"
    with RunWriter(folder) as run:
        process = run.process(pid=5, name="main")
        call = process.call(layer="backend", fn="f")
        thread = process.thread(tid=5)
        for block in range(BLOCKS):
            time = 1000 + 10 * (np.arange(IN_BLOCK) + block * IN_BLOCK)
            thread.write(time, 4, Kind.CALL, call)
            thread.flush()
        api = np.zeros(10, fmt.API_DTYPE)
        api["start"], api["end"], api["os_thread"] = 1000, 1010, 5
        process.api(api)
        device = np.zeros(10, fmt.DEVICE_DTYPE)
        device["start"], device["end"], device["kind"] = 1000, 1010, DeviceKind.KERNEL
        process.device(device)
    return folder


def copy_of(whole, tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy") / "run.cutaway"
    shutil.copytree(whole, folder)
    return folder, next(folder.glob("p*"))


def read_everything(folder):
    """All records, and every table that a report would ask for."""
    trace = read_run(folder)
    process = trace.processes[0]
    records = [part for thread in process.threads for part in process.records(thread)]
    run = cutaway.open(folder)
    run.breakdown()
    run.summary()
    return (
        np.concatenate([np.zeros(0, fmt.RECORD_DTYPE), *records]),
        process,
        run.processes()["lost"].sum(),
    )


def write_segment(folder, thread, seq, records, *, clock=Clock.MONOTONIC, room=100):
    head = np.zeros(1, fmt.SEGMENT_HEAD_DTYPE)
    head["magic"], head["version"], head["clock"] = SEGMENT_MAGIC, FORMAT_VERSION, clock
    head["thread"], head["seq"] = thread, seq
    body = np.zeros(room, fmt.RECORD_DTYPE)
    body[: len(records)] = records
    (folder / f"live-{thread}-{seq}.seg").write_bytes(head.tobytes() + body.tobytes())


def test_a_whole_run_loses_nothing(whole):
    records, process, lost = read_everything(whole)
    assert len(records) == BLOCKS * IN_BLOCK
    assert records["time"].tolist() == sorted(records["time"].tolist())
    assert len(process.api()) == len(process.device()) == 10
    assert lost == 0


def test_live_segments_continue_the_blocks_up_to_the_first_unwritten_record(
    whole, tmp_path_factory
):
    folder, process = copy_of(whole, tmp_path_factory)
    write_segment(process, 0, BLOCKS, fmt.records([20000, 20010], 3, Kind.CALL, 1))
    records, _, lost = read_everything(folder)
    assert records["time"][-2:].tolist() == [20000, 20010]
    assert len(records) == BLOCKS * IN_BLOCK + 2
    assert lost == 0


def test_a_segment_that_is_also_a_block_is_read_once(whole, tmp_path_factory):
    folder, process = copy_of(whole, tmp_path_factory)
    write_segment(process, 0, 2, fmt.records([5000], 3, Kind.CALL, 1))
    records, _, lost = read_everything(folder)
    assert len(records) == BLOCKS * IN_BLOCK
    assert lost == 0


def test_a_segment_replaces_its_damaged_block(whole, tmp_path_factory):
    folder, process = copy_of(whole, tmp_path_factory)
    path = process / "events.bin"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1  # the payload of the last block
    path.write_bytes(data)
    write_segment(process, 0, BLOCKS - 1, fmt.records([30000], 3, Kind.CALL, 1))
    records, _, _ = read_everything(folder)
    assert records["time"][-1] == 30000


def test_a_missing_sequence_number_is_counted(whole, tmp_path_factory):
    folder, process = copy_of(whole, tmp_path_factory)
    write_segment(process, 0, BLOCKS + 2, fmt.records([30000], 3, Kind.CALL, 1))
    _, found, _ = read_everything(folder)
    assert found.losses.missing_segments == 2


def test_a_flipped_bit_in_the_time_of_a_live_record_does_not_stretch_the_run(
    whole, tmp_path_factory
):
    folder, process = copy_of(whole, tmp_path_factory)
    with (process / "log.jsonl").open("ab") as log:
        for t in (1000, 30000):
            text = json.dumps(
                {"k": "anchor", "mono": t, "real": t, "raw": t, "ticks": t}
            ).encode()
            log.write(b"%08x %s\n" % (_sweep.crc32c(text), text))
    write_segment(
        process, 0, BLOCKS, fmt.records([20000, 1 << 62, 20020], 3, Kind.CALL, 1)
    )
    run = cutaway.open(folder)
    assert run.breakdown()["ns"].sum() == 20023 - 1000
    assert run.processes()["lost"].tolist() == [1]


def test_ticks_of_a_recorder_become_nanoseconds(tmp_path):
    with RunWriter(tmp_path / "run.cutaway") as run:
        process = run.process(pid=5)
        process.call(layer="backend", fn="f")
        process.thread(tid=5)
        for second in range(3):
            ns = second * 10**9
            process.log(
                "anchor", {"mono": ns + 7, "real": ns, "raw": ns, "ticks": 3 * ns + 100}
            )
    times = np.array([100, 3 * 10**9 + 100])
    write_segment(
        process.folder, 0, 0, fmt.records(times, 300, Kind.CALL, 1), clock=Clock.TICKS
    )
    table = cutaway.open(tmp_path / "run.cutaway").breakdown(by=["layer"])
    assert {row["layer"]: row["ns"] for row in table} == {
        "backend": 200,
        "python": 10**9 - 100,
    }


@settings(max_examples=effort(80, 25))
@given(
    st.sampled_from(["events.bin", "device.bin", "log.jsonl"]),
    st.integers(0, 10**6),
    st.data(),
)
def test_any_damage_leaves_the_rest_readable(whole, tmp_path_factory, name, at, data):
    folder, process = copy_of(whole, tmp_path_factory)
    path = process / name
    content = bytearray(path.read_bytes())
    at %= len(content)
    how = data.draw(st.sampled_from(["flip", "truncate", "zero", "insert"]))
    if how == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif how == "truncate":
        del content[at:]
    elif how == "zero":
        content[at : at + 64] = bytes(len(content[at : at + 64]))
    else:
        content[at:at] = data.draw(st.binary(min_size=1, max_size=32))
    path.write_bytes(content)
    records, _, lost = read_everything(folder)
    if name == "events.bin" and how == "flip":
        assert len(records) >= (BLOCKS - 1) * IN_BLOCK
        assert len(records) == BLOCKS * IN_BLOCK or lost > 0
    if name != "events.bin":
        assert len(records) == BLOCKS * IN_BLOCK
    shutil.rmtree(folder.parent)


@given(st.binary(max_size=200))
def test_a_log_of_anything_is_read(tmp_path_factory, garbage):
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    text = b'{"k":"name","id":1,"s":"inference"}'
    path.write_bytes(garbage + b"\n" + b"%08x %s\n" % (_sweep.crc32c(text), text))
    log = Log()
    read_log(log, path)
    assert log.name(1) == "inference"
    assert log.bad_lines >= 1


def test_a_sound_line_that_makes_no_sense_is_counted(tmp_path):
    path = tmp_path / "log.jsonl"
    bodies = [
        b'{"k":"call"}',
        b"[1]",
        b'{"k":"name","id":-1,"s":"x"}',
        b'{"k":"name","id":1e400,"s":"x"}',
        b"[" * 10000,
        b'{"k":"device","id":{"10":[1,2]},"name":"GPU"}',
    ]
    path.write_bytes(b"".join(b"%08x %s\n" % (_sweep.crc32c(b), b) for b in bodies))
    log = Log()
    read_log(log, path)
    assert log.bad_lines == len(bodies)


def test_what_is_no_run_is_said_in_one_sentence(tmp_path):
    with pytest.raises(CutawayError, match="There is no run at"):
        cutaway.open(tmp_path / "nothing")
    with pytest.raises(CutawayError, match="is not a Cutaway run"):
        cutaway.open(tmp_path)
    (tmp_path / "run.json").write_text('{"format": 99}')
    with pytest.raises(CutawayError, match="newer Cutaway"):
        cutaway.open(tmp_path)


def test_an_empty_run_has_empty_tables(tmp_path):
    RunWriter(tmp_path / "run.cutaway").close()
    run = cutaway.open(tmp_path / "run.cutaway")
    tables = "processes threads breakdown transitions iterations operations callsites waits kernels samples timeline"
    for name in tables.split():
        assert len(getattr(run, name)()) == 0, name
    assert run.summary()["span_ns"] == 0
    assert run.utilisation()["devices"] == {}
