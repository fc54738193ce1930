"""Reads XPlane protobufs (`*.xplane.pb`) of JAX, TensorFlow and XProf.

Device times are picoseconds: the nanosecond goes into the record and the rest beside it, so that nothing is
lost (see DEVICE_PICOSECONDS). Times are relative to `profile_start_time` of the Task Environment plane where there
is one. XPlane does not tell annotations of the user from those of the libraries: operations are events that
bear the name of a built-in operation or begin with `rl.`; iterations are events with a step number.
"""

from __future__ import annotations

import mmap
import re
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _imports
from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.trace.imports.recorded import (
    LAST_TIME,
    MISSING,
    HostEvents,
    Ints,
    Item,
    Recorded,
    device_records,
    or_zero,
)
from cutaway.trace.imports.source import Limits, Progress, read_chunks
from cutaway.vocabulary import DEVICE_PICOSECONDS, OPERATIONS, DeviceKind

_STATS = [
    ("correlation_id", False),
    ("step_num", False),
    ("profile_start_time", False),
    ("kernel_details", True),
    ("memcpy_details", True),
]
_FRAME = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_ORDINAL = re.compile(r"/device:\w+:(\d+)")
_LAUNCH = re.compile(r"(regs|shm|grid|block|size):([\d,]+)")
_LAST_PS = 1 << 62
_KINDS = {"Memcpy": DeviceKind.MEMCPY, "Memset": DeviceKind.MEMSET}

Plane = dict[str, Any]


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a file."""
    planes, texts = _planes(path, limits)
    progress(path.stat().st_size)
    if sum(len(plane["line"]) for plane in planes) > limits.events:
        raise CutawayError(
            f"{path} has more than {limits.events} events; if you trust it, raise --max-events."
        )
    told = [int(plane["plane_stats"][2]) for plane in planes]
    base = max((t for t in told if 0 < t < LAST_TIME // 2), default=0)
    device: list[NDArray[np.void]] = []
    process = Recorded(1, path.name, texts, HostEvents.join([]), np.zeros(0, DEVICE_DTYPE))
    threads: list[HostEvents] = []
    for plane in planes:
        name = texts[plane["name"]]
        if name.startswith("/device:"):
            device.append(_device(plane, base, process, len(process.devices)))
        elif name.startswith("/host:") and len(plane["line"]):
            threads.append(_host(plane, base, process))
    process.host = HostEvents.join(threads)
    process.device = np.concatenate([process.device, *device])
    process.counts = {"format": "xplane"}
    if not len(process.host.start) + len(process.device):
        raise CutawayError(
            f"{path} contains no host or device events; was it written by a JAX or TF profiler?"
        )
    return [process]


def _planes(path: Path, limits: Limits) -> tuple[list[Plane], list[str]]:
    try:
        with path.open("rb") as file:
            if file.read(2) == b"\x1f\x8b":
                raw = np.frombuffer(b"".join(read_chunks(path, limits, lambda read: None)), np.uint8)
                return _imports.read_xspace(raw, _STATS, limits.names)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                view = np.frombuffer(content, np.uint8)
                try:
                    return _imports.read_xspace(view, _STATS, limits.names)
                finally:
                    del view  # the mapping cannot be closed while it is looked at
    except _imports.ParseError as error:
        raise CutawayError(
            f"{path} is not a complete XPlane file ({error}); write or copy it again."
        ) from None
    except (OSError, ValueError, zlib.error) as error:
        raise CutawayError(f"{path} cannot be read: {error}.") from None


def _times(plane: Plane, base: int, process: Recorded) -> tuple[NDArray[np.bool_], Ints, Ints, Ints, Ints]:
    """Usable rows; start and end in ns; the picoseconds below each."""
    stamps = np.array([line[2] for line in plane["lines"]], np.int64)[plane["line"]]
    stamps = np.where(stamps < base, stamps + base, stamps)
    offset, duration = plane["offset_ps"], plane["duration_ps"]
    fine = (offset >= 0) & (offset < _LAST_PS) & (duration < _LAST_PS) & (stamps >= 0) & (stamps < LAST_TIME)
    negative = fine & (duration < 0)
    if (~fine).any():
        key = "events without a usable time"
        process.losses[key] = process.losses.get(key, 0) + int((~fine).sum())
    if negative.any():
        process.notes.append(f"{int(negative.sum())} events had a negative duration, which was set to 0")
    first = offset[fine]
    last = first + np.maximum(duration[fine], 0)
    return fine, stamps[fine] + first // 1000, stamps[fine] + last // 1000, first % 1000, last % 1000


def _lines(plane: Plane, texts: list[str]) -> NDArray[np.bool_]:
    """Which lines are work of the device: streams where there are any (others repeat them), else all."""
    streams = np.array([texts[line[3]].startswith("Stream #") for line in plane["lines"]], bool)
    return streams if streams.any() else np.ones(len(streams), bool)


def _device(plane: Plane, base: int, process: Recorded, index: int) -> NDArray[np.void]:
    texts = process.texts
    name = texts[plane["name"]]
    ordinal = _ORDINAL.fullmatch(name)
    number = int(ordinal.group(1)) if ordinal and len(ordinal.group(1)) < 4 else 1000 + index
    chosen = _lines(plane, texts)
    process.devices.append({"id": number, "name": name, "lines": int(chosen.sum())})
    if not len(plane["line"]):
        return np.zeros(0, DEVICE_DTYPE)
    fine, start, end, start_ps, end_ps = _times(plane, base, process)
    keep = chosen[plane["line"][fine]]
    rows = np.flatnonzero(fine)[keep]
    event = plane["event"][rows]
    kinds = np.array([_KINDS.get(text[:6], DeviceKind.KERNEL) for text in texts], np.int64)
    columns = {
        "queued_ns": start_ps[keep] | end_ps[keep] << 16,
        "flags": DEVICE_PICOSECONDS,
        "correlation": plane["stats"][0][rows],
        "name": event,
        "device": number,
        "stream": plane["line"][rows],
        "kind": kinds[event],
        **_launch(plane, rows, texts),
    }
    return device_records(texts, start[keep], end[keep], {}, {}, **columns)


def _launch(plane: Plane, rows: Ints, texts: list[str]) -> dict[str, Any]:
    """Launch shape and size, which XPlane gives as text: `regs:38 shm:0 grid:160,1,1 block:1024,1,1`."""
    details = np.where(plane["stats"][3][rows] != MISSING, plane["stats"][3][rows], plane["stats"][4][rows])
    distinct, where = np.unique(or_zero(details), return_inverse=True)
    parsed = [dict(_LAUNCH.findall(texts[text])) for text in distinct.tolist()]

    def column(key: str, axis: int) -> Ints:
        numbers = [[*p.get(key, "0").split(","), "0", "0"][axis] for p in parsed]
        values = [int(n) if n.isdigit() and len(n) < 10 else 0 for n in numbers]
        return np.array(values, np.int64)[where]

    shapes = {key: np.stack([column(key, axis) for axis in range(3)], axis=1) for key in ("grid", "block")}
    numbers = {"registers": "regs", "shared_dynamic": "shm", "bytes": "size"}
    return shapes | {field: column(key, 0) for field, key in numbers.items()}


def _host(plane: Plane, base: int, process: Recorded) -> HostEvents:
    fine, start, end, _, _ = _times(plane, base, process)
    texts = process.texts
    correlation, step = (plane["stats"][i][fine] for i in (0, 1))
    item, name = _items(plane["event"][fine], texts)
    item[correlation != MISSING] = Item.API
    stepped = step != MISSING
    item[stepped] = Item.ITERATION
    for i in np.flatnonzero(stepped).tolist():
        texts.append(f"#{int(step[i]) & 0x7FFFFFFF}")
        name[i] = len(texts) - 1
    tids = _threads(plane, process)
    keep = item != _SKIP
    thread = tids[plane["line"][fine]]
    columns = (thread, item, name, start, end, or_zero(correlation))
    return HostEvents(*columns).where(keep)


_SKIP = 255


def _items(event: Ints, texts: list[str]) -> tuple[NDArray[np.uint8], Ints]:
    """What each event is, by its name; Python frames get the form `file(line): function`."""
    distinct, where = np.unique(event, return_inverse=True)
    items, names = [], []
    for number in distinct.tolist():
        text = texts[number]
        frame = _FRAME.fullmatch(text)
        if frame:
            texts.append("{}({}): {}".format(*frame.groups()))
            number = len(texts) - 1
        known = text in OPERATIONS or text.startswith("rl.")
        plain = Item.OPERATION if known else Item.CALL
        items.append(Item.FRAME if frame else _SKIP if text.startswith("$") else plain)
        names.append(number)
    return np.array(items, np.uint8)[where], np.array(names, np.int64)[where]


def _threads(plane: Plane, process: Recorded) -> Ints:
    """A thread number for each line: the line's own where it can be one."""
    numbers: list[int] = []
    for index, (ident, _, _, name) in enumerate(plane["lines"]):
        usable = 0 < ident < 1 << 31 and ident not in process.threads
        number = ident if usable else (1 << 31) + len(process.threads) + index
        process.threads[number] = process.texts[name]
        numbers.append(number)
    return np.array(numbers, np.int64)
