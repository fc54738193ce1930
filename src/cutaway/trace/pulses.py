"""pulse.bin: what threads were in the middle of that had written nothing for a while.

A slot goes on where the live segment of its thread ends. It holds only if that segment has had no record since.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.files import open_file
from cutaway.vocabulary import PULSE_MAGIC, PULSE_RECORDS, PULSE_SLOT, Kind

MOST_SLOTS = 1 << 14
_CRC = 32  # where the checksum lies in a slot


class Pulse(NamedTuple):
    """Where a thread was at its last pulse. Times are ticks; `call` is 0 outside all recorded calls."""

    thread: int
    seq: int
    written: int  # records of the segment then
    call: int
    since: int
    until: int
    offset: int  # of its records in the file
    records: int


def read_pulses(path: Path) -> Iterator[Pulse]:
    """All valid slots of a file; damaged ones are skipped."""
    try:
        with open_file(path) as file:
            for number in range(MOST_SLOTS):
                slot = file.read(PULSE_SLOT)
                if len(slot) < PULSE_SLOT:
                    return
                if any(slot[:4]) and (pulse := _pulse(slot, number * PULSE_SLOT)):
                    yield pulse
    except OSError:
        return


def _pulse(slot: bytes, at: int) -> Pulse | None:
    head = np.frombuffer(slot, fmt.PULSE_DTYPE, 1)[0]
    sound = _sweep.crc32c(slot[:_CRC] + bytes(4) + slot[_CRC + 4 :]) == head["crc"]
    used = int(head["used"])
    start = fmt.PULSE_DTYPE.itemsize
    if not sound or head["magic"] != PULSE_MAGIC or not 0 < used <= PULSE_RECORDS:
        return None
    records = np.frombuffer(slot, fmt.RECORD_DTYPE, used, start)
    thread, seq, count, call, since = (
        int(head[n]) for n in ("thread", "seq", "count", "call", "since")
    )
    return Pulse(
        thread, seq, count, call, since, int(records["time"][-1]), at + start, used
    )


def open_calls(path: Path, pulse: Pulse) -> NDArray[np.void] | None:
    """The calls that a thread was in and had not written, as Enter records; None if it has had another pulse since."""
    try:
        with open_file(path) as file:
            file.seek(pulse.offset // PULSE_SLOT * PULSE_SLOT)
            slot = file.read(PULSE_SLOT)
    except OSError:
        return None
    if len(slot) == PULSE_SLOT:
        now = _pulse(slot, pulse.offset // PULSE_SLOT * PULSE_SLOT)
    else:
        now = None
    if now is None or now._replace(until=pulse.until) != pulse:
        return None
    return np.frombuffer(
        slot, fmt.RECORD_DTYPE, pulse.records - 1, fmt.PULSE_DTYPE.itemsize
    )


def written(path: str, segment: Any) -> tuple[int, int]:
    """How many records a live segment holds, and the end of the last one in ticks."""
    raw, _ = _sweep.decode(
        path, np.array(segment, fmt.SOURCE_DTYPE).reshape(1).view(np.uint8)
    )
    records = raw.view(fmt.RECORD_DTYPE)
    if not len(records):
        return 0, 0
    last = records[-1]
    if last["tag"] & 0xFF == Kind.CALL:
        length = int(last["value"])
    else:
        length = 0
    return len(records), int(last["time"]) + length
