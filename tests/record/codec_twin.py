"""The readable twin of native/trace/codec.h: packs and unpacks records, one at a time, with Python's integers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

CALL = 1
WORD, LONG = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF

# Bits of the gap and bits of the value; the first one that fits is taken.
LAYOUTS = [
    (8, 0), (16, 0), (8, 8), (10, 6), (6, 10), (24, 0), (12, 12), (10, 14),
    (14, 10), (8, 16), (16, 8), (18, 6), (6, 18), (32, 0), (16, 16), (14, 18),
    (18, 14), (12, 20), (20, 12), (10, 22), (22, 10), (20, 20), (16, 24), (24, 16),
    (12, 28), (28, 12), (24, 24), (16, 32), (32, 16), (32, 32), (64, 0), (64, 32),
]  # fmt: skip
BY_PAIR, BY_PAIR_OLD, BY_LAST, BY_LAST_OLD, BY_SLOT, SHORT, FULL = range(7)


class Record(NamedTuple):
    """Sixteen bytes."""

    time: int
    value: int
    tag: int

    @property
    def end(self) -> int:
        """The gap to the next record counts from here."""
        return (self.time + self.value if self.tag & 0xFF == CALL else self.time) & LONG


class TagModel:
    """What followed what."""

    def __init__(self) -> None:
        self.pairs: dict[int, list[int]] = {}
        self.lasts: dict[int, list[int]] = {}
        self.slots: dict[int, int] = {}
        self.last = self.before = 0

    def guesses(self) -> list[int]:
        """What the modes BY_PAIR … BY_LAST_OLD stand for now."""
        return [
            *self.pairs.get(self._pair(), [0, 0]),
            *self.lasts.get(self._last(), [0, 0]),
        ]

    def push(self, tag: int) -> None:
        """This tag came."""
        for table, key in ((self.pairs, self._pair()), (self.lasts, self._last())):
            entry = table.setdefault(key, [0, 0])
            if entry[0] != tag:
                table[key] = [tag, entry[0]]
        self.slots[slot_of(tag)] = tag
        self.before, self.last = self.last, tag

    def _pair(self) -> int:
        return ((self.last * 0x9E3779B1 ^ self.before * 0x85EBCA6B) & WORD) >> 20

    def _last(self) -> int:
        return (self.last * 0x9E3779B1 & WORD) >> 22


def slot_of(tag: int) -> int:
    """The slot a tag is kept in."""
    return (tag * 0x9E3779B1 & WORD) >> 24


def pack(records: Iterable[Record]) -> bytes:
    """Control byte, gap and value, tag."""
    model, end, out = TagModel(), 0, bytearray()
    for record in records:
        gap = (record.time - end) & LONG
        layout = next(
            i
            for i, (g, v) in enumerate(LAYOUTS)
            if gap < 1 << g and (record.value < 1 << v)
        )
        mode, tag_bytes = _tag_mode(model, record.tag)
        gap_bits, value_bits = LAYOUTS[layout]
        out.append(layout | mode << 5)
        out += (gap | record.value << gap_bits).to_bytes(
            (gap_bits + value_bits) // 8, "little"
        )
        out += tag_bytes
        model.push(record.tag)
        end = record.end
    return bytes(out)


def unpack(payload: bytes, count: int) -> list[Record]:
    """As many records as make sense."""
    model, end, at, out = TagModel(), 0, 0, []
    while len(out) < count and at < len(payload):
        layout, mode = payload[at] & 31, payload[at] >> 5
        gap_bits, value_bits = LAYOUTS[layout]
        size, tag_size = (
            (gap_bits + value_bits) // 8,
            {BY_SLOT: 1, SHORT: 2, FULL: 4}.get(mode, 0),
        )
        body = payload[at + 1 : at + 1 + size + tag_size]
        if mode > FULL or len(body) < size + tag_size:
            break
        times, tag_word = (
            int.from_bytes(part, "little") for part in (body[:size], body[size:])
        )
        if mode == SHORT:
            tag = (tag_word & 15) | (tag_word >> 4) << 8
        elif mode == BY_SLOT:
            tag = model.slots.get(tag_word, 0)
        else:
            tag = tag_word if mode == FULL else model.guesses()[mode]
        gap = times & ((1 << gap_bits) - 1)
        record = Record((end + gap) & LONG, times >> gap_bits, tag)
        out.append(record)
        model.push(tag)
        end = record.end
        at += 1 + len(body)
    return out


def _tag_mode(model: TagModel, tag: int) -> tuple[int, bytes]:
    guesses = model.guesses()
    for mode in (BY_PAIR, BY_LAST, BY_PAIR_OLD, BY_LAST_OLD):
        if guesses[mode] == tag:
            return mode, b""
    if model.slots.get(slot_of(tag), 0) == tag:
        return BY_SLOT, bytes([slot_of(tag)])
    if tag & 0xFF < 16 and tag >> 8 < 4096:
        return SHORT, ((tag & 15) | tag >> 8 << 4).to_bytes(2, "little")
    return FULL, tag.to_bytes(4, "little")
