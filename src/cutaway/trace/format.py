"""The structures of a run's files as NumPy dtypes; nothing here touches a file. `cutaway.vocabulary` says what each field means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.vocabulary import fields

Structured = NDArray[np.void]


def _dtype(structure: str) -> np.dtype[np.void]:
    codes = {"i64": "<i8", "u64": "<u8", "u32": "<u4", "u16": "<u2", "u8": "u1"}
    return np.dtype(
        [
            (name, codes[kind], *([(n,)] if n > 1 else []))
            for kind, name, n, _ in fields(structure)
        ]
    )


RECORD_DTYPE = _dtype("Record")
SEGMENT_HEAD_DTYPE = _dtype("SegmentHead")
PULSE_DTYPE = _dtype("PulseHead")
BLOCK_HEAD_DTYPE = _dtype("BlockHead")
API_DTYPE = _dtype("ApiRecord")
DEVICE_DTYPE = _dtype("DeviceRecord")
SOURCE_DTYPE = _dtype("Source")
EVENT_DTYPE = _dtype("Row")


def records(time: Any, value: Any, kind: Any, id: Any) -> Structured:
    """Records of a thread from columns; scalars are repeated.

    >>> from cutaway.vocabulary import Kind
    >>> records([10, 20], 0, [Kind.OP_ENTER, Kind.OP_EXIT], 7)["tag"].tolist()
    [1796, 1797]
    """
    time, value, kind, id = np.broadcast_arrays(time, value, kind, id)
    out = np.zeros(time.shape, RECORD_DTYPE)
    out["time"], out["value"] = time, value
    out["tag"] = kind.astype(np.uint32) | id.astype(np.uint32) << np.uint32(8)
    return out


def nested_order(start: NDArray[np.int64], end: NDArray[np.int64]) -> NDArray[np.int64]:
    """The order of the beginnings and ends of intervals, which are numbered one after the other: beginnings first.

    At one instant: ends, the youngest first; beginnings, the longest first; then empty intervals, each with its own end.

    >>> nested_order(np.array([5, 5]), np.array([9, 30])).tolist()
    [1, 0, 2, 3]
    """
    empty = start == end
    position = np.arange(len(start))
    rank = np.concatenate([np.where(empty, 2, 1), np.where(empty, 2, 0)])
    length = np.concatenate(
        [np.where(empty, position, -end), np.where(empty, position, -start)]
    )
    last = np.concatenate([position, np.where(empty, position, -position)])
    return np.lexsort(
        (
            np.repeat([0, 1], len(start)),
            last,
            length,
            rank,
            np.concatenate([start, end]),
        )
    )


def kinds(array: Structured) -> NDArray[np.uint8]:
    return (array["tag"] & 0xFF).astype(np.uint8)


def ids(array: Structured) -> NDArray[np.uint32]:
    return np.asarray(array["tag"] >> np.uint32(8), np.uint32)
