"""The binary layout of `native/trace/format.h` as NumPy dtypes and enums; nothing here touches a file."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 1
SEGMENT_MAGIC = 0x47535743
UNUSED_SEQ = 0xFFFFFFFF  # of a live segment that was prepared and never written to
LARGEST_SEGMENT = 4 << 20  # bytes; a live segment is never longer
PULSE_MAGIC = 0x4C505743
PULSE_SLOT = 2048
PULSE_RECORDS = 65
BLOCK_MAGIC = 0x4B425743
DEVICE_CHUNK = 1 << 16

Structured = NDArray[np.void]


class Kind(IntEnum):
    """What a record of a thread says."""

    CALL = 1
    ENTER = 2
    EXIT = 3
    OP_ENTER = 4
    OP_EXIT = 5
    PHASE = 6
    ITERATION = 7
    STEP = 8
    PAUSE = 9
    RESUME = 10
    CPU_TIME = 11
    BEGIN = 12
    END = 13
    MARK = 14
    SAMPLE = 15


class Mark(IntEnum):
    """What a `Kind.MARK` says."""

    NETWORK_BEGINS = 1
    NETWORK_ENDS = 2
    BATCH = 3
    RANDOM = 4
    ENVIRONMENT = 5


class Why(IntEnum):
    """Why an operation is open; `native/trace/format.h` says when."""

    ANNOTATED = 0
    FRAMEWORK = 1
    LEADS_TO_STEP = 2
    STORES_STEP = 3
    LEADS_TO_UPDATE = 4
    WITHIN_UPDATE = 5
    AFTER_UPDATE = 6
    NETWORK_CALL = 7
    EVALUATES = 8
    COMPILED = 9


class Clock(IntEnum):
    """The clock of a block's times."""

    TICKS = 0
    MONOTONIC = 1
    REALTIME = 2
    MONOTONIC_RAW = 3


class Stream(IntEnum):
    """What a block holds."""

    THREAD = 0
    API = 1
    DEVICE = 2


class DeviceKind(IntEnum):
    """What a piece of device work is."""

    KERNEL = 1
    MEMCPY = 2
    MEMSET = 3
    COLLECTIVE = 4
    SYNC = 5
    OVERHEAD = 6


LAYERS = ("python", "simulator", "backend", "accelerator_api", "wait", "native")
"""Layers of a thread; the position is the number the sweep uses."""

DEVICE_LAYERS = {
    DeviceKind.KERNEL: "kernel",
    DeviceKind.MEMCPY: "memcpy",
    DeviceKind.MEMSET: "memset",
    DeviceKind.COLLECTIVE: "collective",
}
"""Device work that makes a device busy; the other kinds are records about the host."""

API_SYNC = 1  # ApiRecord.flags
DEVICE_PICOSECONDS = 1
"""DeviceRecord.flags: `queued_ns` holds the picoseconds below start (low 16 bits) and end (high 16 bits)."""

RECORD_DTYPE = np.dtype([("time", "<u8"), ("value", "<u4"), ("tag", "<u4")])

SEGMENT_HEAD_DTYPE = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "u1"),
        ("clock", "u1"),
        ("reserved", "<u2"),
        ("thread", "<u4"),
        ("seq", "<u4"),
        ("pad", "<u8", (6,)),
    ]
)

PULSE_DTYPE = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "u1"),
        ("clock", "u1"),
        ("used", "<u2"),
        ("thread", "<u4"),
        ("seq", "<u4"),
        ("count", "<u4"),
        ("call", "<u4"),
        ("since", "<u8"),
        ("crc", "<u4"),
        ("pad", "<u4", (7,)),
    ]
)

BLOCK_HEAD_DTYPE = np.dtype(
    [
        ("magic", "<u4"),
        ("version", "u1"),
        ("stream", "u1"),
        ("clock", "u1"),
        ("reserved", "u1"),
        ("id", "<u4"),
        ("seq", "<u4"),
        ("count", "<u4"),
        ("bytes", "<u4"),
        ("first", "<u8"),
        ("last", "<u8"),
        ("reserved2", "<u8"),
        ("payload_crc", "<u4"),
        ("head_crc", "<u4"),
    ]
)

API_DTYPE = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("correlation", "<u8"),
        ("os_thread", "<u4"),
        ("name", "<u4"),
        ("operation", "<u4"),
        ("flags", "<u4"),
    ]
)

DEVICE_DTYPE = np.dtype(
    [
        ("start", "<u8"),
        ("end", "<u8"),
        ("correlation", "<u8"),
        ("bytes", "<u8"),
        ("name", "<u4"),
        ("device", "<u4"),
        ("stream", "<u4"),
        ("graph", "<u4"),
        ("operation", "<u4"),
        ("grid", "<u4", (3,)),
        ("block", "<u4", (3,)),
        ("registers", "<u4"),
        ("shared_static", "<u4"),
        ("shared_dynamic", "<u4"),
        ("kind", "u1"),
        ("detail", "u1"),
        ("flags", "<u2"),
        ("queued_ns", "<u4"),
    ]
)

SOURCE_DTYPE = np.dtype(
    [
        ("file", "<u4"),
        ("count", "<u4"),
        ("offset", "<u8"),
        ("bytes", "<u8"),
        ("crc", "<u4"),
        ("packed", "u1"),
        ("clock", "u1"),
        ("stream", "u1"),
        ("reserved", "u1"),
        ("thread", "<u4"),
        ("seq", "<u4"),
    ]
)
"""Where one run of records lies (`Source` in native/sweep/blocks.h)."""


EVENT_DTYPE = np.dtype(
    [
        ("time", "<i8"),
        ("end", "<i8"),
        ("value", "<u4"),
        ("id", "<u4"),
        ("operation", "<u4"),
        ("calls", "<u4"),
        ("operations", "<u4"),
        ("kind", "u1"),
        ("layer", "u1"),
        ("after", "u1"),
        ("flags", "u1"),
    ]
)
"""An event as the reader gives it (`Row` in native/sweep/reader.h says what each column means)."""

RECORDED = 1  # flags of an event
LOSS_BEFORE = 2


def records(time: Any, value: Any, kind: Any, id: Any) -> Structured:
    """Records of a thread from columns; scalars are repeated.

    >>> records([10, 20], 0, [Kind.OP_ENTER, Kind.OP_EXIT], 7)["tag"].tolist()
    [1796, 1797]
    """
    time, value, kind, id = np.broadcast_arrays(time, value, kind, id)
    out = np.zeros(time.shape, RECORD_DTYPE)
    out["time"], out["value"] = time, value
    out["tag"] = kind.astype(np.uint32) | id.astype(np.uint32) << np.uint32(8)
    return out


def kinds(array: Structured) -> NDArray[np.uint8]:
    """The kind of each record."""
    return (array["tag"] & 0xFF).astype(np.uint8)


def ids(array: Structured) -> NDArray[np.uint32]:
    """The id of each record."""
    return np.asarray(array["tag"] >> np.uint32(8), np.uint32)
