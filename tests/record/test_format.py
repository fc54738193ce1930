"""Files that were cut, flipped or filled with nonsense: the rest is read, the loss is counted, nothing crashes."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from streams import array_of, only_process

from cutaway import _recorder
from cutaway.trace.reader import ProcessTrace
from cutaway.vocabulary import Kind
from effort import effort

pytestmark = pytest.mark.core

EVENTS = 30_000


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished recording: several blocks."""
    return _record(tmp_path_factory.mktemp("packed") / "run.cutaway", killed=False)


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose process was killed: live segments."""
    return _record(tmp_path_factory.mktemp("live") / "run.cutaway", killed=True)


def _record(folder: Path, *, killed: bool) -> Path:
    from streams import run

    end = "os.kill(os.getpid(), 9)" if killed else "recorder.stop()"
    program = f"recorder.start(folder)\nfor i in range(1, {EVENTS} + 1): recorder.step(i)\n{end}"
    run(program, folder)
    return only_process(folder).folder


def read_all(folder: Path) -> tuple[ProcessTrace, list[int]]:
    process = ProcessTrace(folder)
    steps: list[int] = []
    for thread in process.threads:
        records = array_of(process, thread)
        if len(records):
            steps += records["value"][(records["tag"] & 0xFF) == Kind.STEP].tolist()
    return process, steps


def damaged_copy(folder: Path, place: Path, name: str, data: bytes) -> Path:
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    (place / name).write_bytes(data)
    return place


quick = settings(max_examples=effort(40, 15))


def test_undamaged_both_ways(packed: Path, live: Path) -> None:
    for folder in (packed, live):
        process, steps = read_all(folder)
        assert steps == list(range(1, EVENTS + 1)) and process.losses.total == 0
    assert (packed / "events.bin").stat().st_size > 0 and not list(
        packed.glob("live-*")
    )
    assert list(live.glob("live-*"))


@quick
@given(data=st.data())
def test_a_flipped_bit_in_the_events_costs_at_most_its_block(
    packed: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray((packed / "events.bin").read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    process, steps = read_all(
        damaged_copy(packed, tmp_path / "p1-1", "events.bin", bytes(content))
    )
    expected = np.arange(1, EVENTS + 1)
    lost = np.setdiff1d(expected, steps)
    assert (
        steps == np.setdiff1d(expected, lost).tolist()
    )  # what is left is right, once, in order
    assert len(lost) == 0 or np.array_equal(lost, np.arange(lost[0], lost[-1] + 1))
    # A payload that fails its checksum gives nothing.
    skipped = sum(len(block) == 0 for block in process.records(0))
    assert process.losses.damaged_blocks + process.losses.missing_segments + skipped > 0


@quick
@given(data=st.data())
def test_truncated_events_are_read_up_to_the_cut(
    packed: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = (packed / "events.bin").read_bytes()
    cut = data.draw(st.integers(0, len(content)))
    process, steps = read_all(
        damaged_copy(packed, tmp_path / "p1-1", "events.bin", content[:cut])
    )
    assert steps == list(range(1, len(steps) + 1))
    if 0 < cut < len(content) and len(steps) == EVENTS:
        assert process.losses.damaged_blocks


@quick
@given(data=st.data())
def test_a_live_segment_may_be_cut_or_flipped(
    live: Path, tmp_path: Path, data: st.DataObject
) -> None:
    # The kill may have caught the recorder between making a spare segment and giving it its size.
    written = [path.name for path in live.glob("live-*") if path.stat().st_size]
    name = data.draw(st.sampled_from(sorted(written)))
    content = bytearray((live / name).read_bytes())
    for bit in data.draw(st.lists(st.integers(0, 8 * len(content) - 1), max_size=3)):
        content[bit // 8] ^= 1 << bit % 8
    cut = data.draw(st.integers(0, len(content)))
    _, steps = read_all(
        damaged_copy(live, tmp_path / "p1-1", name, bytes(content[:cut]))
    )
    assert len(steps) <= EVENTS + 3


@quick
@given(data=st.data())
def test_a_damaged_log_loses_lines_and_says_so(
    packed: Path, tmp_path: Path, data: st.DataObject
) -> None:
    content = bytearray((packed / "log.jsonl").read_bytes())
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    process, steps = read_all(
        damaged_copy(packed, tmp_path / "p1-1", "log.jsonl", bytes(content))
    )
    assert steps == list(range(1, EVENTS + 1))
    assert process.losses.bad_lines in (1, 2)


@quick
@given(noise=st.binary(max_size=3000))
def test_nonsense_is_no_trace(packed: Path, tmp_path: Path, noise: bytes) -> None:
    for name in ("events.bin", "log.jsonl", "device.bin", "live-0-0.seg"):
        _, steps = read_all(damaged_copy(packed, tmp_path / "p1-1", name, noise))
        assert len(steps) in (0, EVENTS)


def test_a_block_and_its_segment_are_counted_once(
    packed: Path, live: Path, tmp_path: Path
) -> None:
    """Killed between packing a segment and removing it."""
    place = tmp_path / "p1-1"
    shutil.copytree(live, place)
    shutil.copy(packed / "events.bin", place / "events.bin")
    _, steps = read_all(place)
    assert steps == list(range(1, EVENTS + 1))


def test_every_line_of_the_log_has_its_checksum(packed: Path) -> None:
    for line in (packed / "log.jsonl").read_bytes().splitlines():
        assert int(line[:8], 16) == _recorder.crc32c(line[9:]) and line[8:10] == b" {"
