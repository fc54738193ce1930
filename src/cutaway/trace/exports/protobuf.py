"""Writes the protobuf wire format: just what the Perfetto export and the TensorBoard files need.

A message of a fixed shape can be written for a whole column of events at once: a varint may be longer than
it need be, so every number gets the same room and the bytes become a matrix.
"""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]


def varint(value: int) -> bytes:
    """A number; negative ones as 64 bits.

    >>> varint(300).hex()
    'ac02'
    """
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """A field of an integer type."""
    return varint(field << 3) + varint(value)


def blob(field: int, value: bytes | str) -> bytes:
    """A field that holds text or a message."""
    if isinstance(value, str):
        raw = value.encode()
    else:
        raw = value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def float64(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def float32(field: int, value: float) -> bytes:
    return varint(field << 3 | 5) + struct.pack("<f", value)


def wide(values: NDArray[np.int64], width: int) -> Bytes:
    """A column of numbers as varints of `width` bytes each: one row a number.

    >>> wide(np.array([1, 300]), 3).tolist()
    [[129, 128, 0], [172, 130, 0]]
    """
    shifts = np.arange(width, dtype=np.uint64) * np.uint64(7)
    rows: Bytes = (values.astype(np.uint64)[:, None] >> shifts & np.uint64(127)).astype(
        np.uint8
    )
    rows[:, :-1] |= 128
    return rows


def constant(raw: bytes, rows: int) -> Bytes:
    """The same bytes in every row."""
    return np.broadcast_to(np.frombuffer(raw, np.uint8), (rows, len(raw)))


def little(values: NDArray[np.int64]) -> Bytes:
    """A column of numbers as fixed64."""
    return values.astype("<u8").view(np.uint8).reshape(len(values), 8)


def framed(field: int, body: Bytes) -> Bytes:
    """Every row as a message in a field."""
    head = varint(field << 3 | 2) + varint(body.shape[1])
    return np.concatenate([constant(head, len(body)), body], axis=1)
