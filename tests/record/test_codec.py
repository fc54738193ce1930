"""The packing of records: native code and its twin agree on every byte, and nothing in a payload can do harm."""

from __future__ import annotations

import struct
import zlib

import codec_twin as twin
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cutaway import _recorder

pytestmark = pytest.mark.core

small_tags = st.builds(
    lambda kind, id: kind | id << 8, st.integers(1, 13), st.integers(0, 40)
)
any_tag = st.integers(0, twin.WORD)
sizes = st.one_of(
    st.integers(0, 300), st.integers(0, 1 << 20), st.integers(0, twin.WORD)
)
any_record = st.builds(
    twin.Record, st.integers(0, twin.LONG), sizes, st.one_of(small_tags, any_tag)
)


@st.composite
def streams(draw: st.DrawFn) -> list[twin.Record]:
    """Records in order of time, as a thread writes them."""
    out, now = [], draw(st.integers(0, 1 << 60))
    for gap, value, tag in draw(
        st.lists(st.tuples(sizes, sizes, small_tags), max_size=60)
    ):
        record = twin.Record(now + gap, value, tag)
        out.append(record)
        now = record.end
    return out


def raw(records: list[twin.Record]) -> bytes:
    return b"".join(struct.pack("<QII", *record) for record in records)


@given(st.one_of(streams(), st.lists(any_record, max_size=40)))
def test_native_and_twin_pack_to_the_same_bytes_and_back(
    records: list[twin.Record],
) -> None:
    packed = _recorder.pack_records(raw(records))
    assert packed == twin.pack(records)
    assert _recorder.unpack_records(packed, len(records)) == raw(records)
    assert twin.unpack(packed, len(records)) == records


@given(st.binary(max_size=400), st.integers(0, twin.WORD))
def test_any_bytes_unpack_to_what_the_twin_makes_of_them(
    payload: bytes, count: int
) -> None:
    out = _recorder.unpack_records(payload, count)
    assert out == raw(twin.unpack(payload, count))
    assert len(out) // 16 <= len(payload) // 2


@given(st.data())
def test_a_flipped_bit_stops_at_worst_and_never_reads_beyond(
    data: st.DataObject,
) -> None:
    records = data.draw(streams())
    packed = bytearray(_recorder.pack_records(raw(records)))
    if not packed:
        return
    bit = data.draw(st.integers(0, 8 * len(packed) - 1))
    packed[bit // 8] ^= 1 << bit % 8
    cut = bytes(packed[: data.draw(st.integers(0, len(packed)))])
    assert _recorder.unpack_records(cut, len(records)) == raw(
        twin.unpack(cut, len(records))
    )


def test_a_loop_of_calls_takes_about_four_bytes_an_event() -> None:
    records, now = [], 1 << 50
    for i in range(20000):
        now += 200 + i * 7919 % 1500
        records.append(twin.Record(now, 300 + i * 104729 % 3000, 1 | (i % 37) << 8))
        now = records[-1].end
    assert len(_recorder.pack_records(raw(records))) / len(records) < 5


def test_checksum_is_crc32c_and_not_another_crc() -> None:
    assert _recorder.crc32c(b"123456789") == 0xE3069283 != zlib.crc32(b"123456789")
    assert [_recorder.crc32c(bytes(n)) for n in (0, 32)] == [0, 0x8A9136AA]
