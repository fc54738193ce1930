"""Reads XPlane protobufs (`*.xplane.pb`) of JAX, TensorFlow and XProf.

Device times are picoseconds: the nanosecond goes into the record and the rest beside it, so that nothing is
lost (see DEVICE_PICOSECONDS). Times are relative to `profile_start_time` of the Task Environment plane where there
is one. XPlane does not tell annotations of the user from those of the libraries: operations are events that
bear the name of a built-in operation or begin with `rl.`; iterations are events with a step number.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from cutaway import _imports
from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.imports.columns import (
    LAST_TIME,
    MISSING,
    Clock,
    Columns,
    Ints,
    records,
)
from cutaway.trace.imports.counters import Counted
from cutaway.trace.imports.recorded import HOST_DTYPE, Item, Recorded
from cutaway.trace.imports.source import Limits, Progress, is_gzip, read_chunks
from cutaway.vocabulary import DEVICE_PICOSECONDS, OPERATIONS, DeviceKind

_STATS = [
    ("correlation_id", False),
    ("step_num", False),
    ("profile_start_time", False),
    ("kernel_details", True),
    ("memcpy_details", True),
    ("flops", False),
    ("bytes_accessed", False),
    ("peak_teraflops_per_second", False),
]
_CORRELATION, _STEP, _START, _KERNEL, _MEMCPY, _FLOPS, _BYTES, _PEAK = range(
    len(_STATS)
)
_FRAME = re.compile(r"\$(.+):(\d+) (.+)", re.DOTALL)
_ORDINAL = re.compile(r"/device:\w+:(\d{1,3})")
_LAUNCH = re.compile(r"(regs|shm|grid|block|size):([\d,]+)")
_KINDS = {"Memcpy": DeviceKind.MEMCPY, "Memset": DeviceKind.MEMSET}
_SKIP = 255  # an `Item` that is none of ours

Plane = dict[str, Any]


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a file."""
    planes, texts = _planes(path, limits)
    progress(path.stat().st_size)
    if sum(len(plane["line"]) for plane in planes) > limits.events:
        raise CutawayError(
            f"{path} has more than {limits.events} events; if you trust it, raise --max-events."
        )
    told = [int(plane["plane_stats"][_START]) for plane in planes]
    base = max((t for t in told if 0 < t < LAST_TIME // 2), default=0)
    host = [np.zeros(0, HOST_DTYPE)]
    device = [np.zeros(0, DEVICE_DTYPE)]
    process = Recorded(
        1, path.name, texts, host[0], device[0], counts={"format": "xplane"}
    )
    process.counters.replayed = False
    for plane in planes:
        name = texts[plane["name"]]
        if name.startswith("/device:"):
            device.append(_device(plane, _rows(plane, base, process.clock), process))
        elif name.startswith("/host:") and len(plane["line"]):
            host.append(_host(plane, _rows(plane, base, process.clock), process))
    process.host, process.device = np.concatenate(host), np.concatenate(device)
    if not len(process.host) + len(process.device):
        raise CutawayError(
            f"{path} contains no host or device events; was it written by a JAX or TF profiler?"
        )
    return [process]


def _planes(path: Path, limits: Limits) -> tuple[list[Plane], list[str]]:
    try:
        if is_gzip(path):
            raw = np.frombuffer(
                b"".join(read_chunks(path, limits, lambda read: None)), np.uint8
            )
        else:
            raw = np.memmap(path, np.uint8, "r")
        return _imports.read_xspace(raw, _STATS, limits.names)
    except _imports.ParseError as error:
        raise CutawayError(
            f"{path} is not a complete XPlane file ({error}); write or copy it again."
        ) from None
    except (OSError, ValueError) as error:
        raise CutawayError(f"{path} cannot be read: {error}.") from None


def _rows(plane: Plane, base: int, clock: Clock) -> Columns:
    """The events of a plane that have a usable time."""
    stamps = np.array([line[2] for line in plane["lines"]], np.int64)[plane["line"]]
    stamps = np.where(stamps < base, stamps + base, stamps)
    offset = plane["offset_ps"]
    duration = plane["duration_ps"]
    fine = (offset >= 0) & (offset < LAST_TIME) & (duration < LAST_TIME) & (stamps >= 0)
    clock.negative += int((fine & (duration < 0)).sum())
    last = offset + np.maximum(duration, 0)
    kernel = plane["stats"][_KERNEL]
    memcpy = plane["stats"][_MEMCPY]
    rows = {
        "start": np.where(fine, stamps + offset // 1000, MISSING),
        "end": stamps + last // 1000,
        "queued_ns": offset % 1000 | last % 1000 << 16,  # see DEVICE_PICOSECONDS
        "line": plane["line"],
        "name": plane["event"],
        "correlation": plane["stats"][_CORRELATION],
        "step": plane["stats"][_STEP],
        "flops": plane["stats"][_FLOPS],
        "moved": plane["stats"][_BYTES],
        "details": np.where(kernel != MISSING, kernel, memcpy),
    }
    return clock.place(rows)


def _device(plane: Plane, rows: Columns, process: Recorded) -> Structured:
    texts = process.texts
    name = texts[plane["name"]]
    ordinal = _ORDINAL.fullmatch(name)
    if ordinal:
        number = int(ordinal.group(1))
    else:
        number = 1000 + len(process.devices)
    # Streams are the work of the device where there are any, and other lines repeat them.
    streams = np.array(
        [texts[line[3]].startswith("Stream #") for line in plane["lines"]], bool
    )
    if streams.any():
        chosen = streams
    else:
        chosen = np.ones(len(streams), bool)
    process.devices.append({"id": number, "name": name, "lines": int(chosen.sum())})
    rows = {key: column[chosen[rows["line"]]] for key, column in rows.items()}
    process.counters.kernels += _counted(rows, number, int(plane["plane_stats"][_PEAK]))
    kinds = np.array(
        [_KINDS.get(text[:6], DeviceKind.KERNEL) for text in texts], np.int64
    )
    known = {
        "device": number,
        "stream": rows["line"],
        "kind": kinds[rows["name"]],
        "flags": DEVICE_PICOSECONDS,
    }
    return records(DEVICE_DTYPE, rows, **known, **_launch(rows["details"], texts))


def _counted(rows: Columns, device: int, peak: int) -> list[Counted]:
    """What the compiler knows of each operator: its operations and bytes, beside the peak of the device."""
    found = []
    known = rows["flops"] != MISSING
    shown = ("name", "start", "end", "flops", "moved")
    for name, start, end, flops, moved in zip(
        *(rows[key][known].tolist() for key in shown), strict=True
    ):
        values = {"flops": float(flops)}
        if moved != MISSING:
            values["bytes_accessed"] = float(moved)
        if peak > 0:
            values["peak_flops"] = peak * 1e12
        found.append(Counted(name, values, device, max(end - start, 0)))
    return found


def _launch(details: Ints, texts: list[str]) -> dict[str, Any]:
    """Launch shape and size, which XPlane gives as text: `regs:38 shm:0 grid:160,1,1 block:1024,1,1`."""
    distinct, where = np.unique(np.maximum(details, 0), return_inverse=True)
    parsed = [dict(_LAUNCH.findall(texts[text])) for text in distinct.tolist()]

    def column(key: str, axis: int = 0) -> Ints:
        numbers = [[*p.get(key, "0").split(","), "0", "0"][axis] for p in parsed]
        values = [int(n) if n.isdigit() and len(n) < 10 else 0 for n in numbers]
        return np.array(values, np.int64)[where]

    shapes = {}
    for key in ("grid", "block"):
        shapes[key] = np.stack([column(key, axis) for axis in range(3)], axis=1)
    return {
        **shapes,
        "registers": column("regs"),
        "shared_dynamic": column("shm"),
        "bytes": column("size"),
    }


def _host(plane: Plane, rows: Columns, process: Recorded) -> Structured:
    """What each event is, by its name; Python frames get the form `file(line): function`."""
    texts = process.texts
    distinct, where = np.unique(rows["name"], return_inverse=True)
    items = []
    names = []
    for number in distinct.tolist():
        text = texts[number]
        frame = _FRAME.fullmatch(text)
        known = text in OPERATIONS or text.startswith("rl.")
        if known:
            plain = Item.OPERATION
        else:
            plain = Item.CALL
        items.append(Item.FRAME if frame else _SKIP if text.startswith("$") else plain)
        names.append(len(texts) if frame else number)
        texts += ["{}({}): {}".format(*frame.groups())] if frame else []
    item = np.array(items, np.int64)[where]
    name = np.array(names, np.int64)[where]
    item[rows["correlation"] != MISSING] = Item.API
    item[rows["step"] != MISSING] = Item.ITERATION
    for i in np.flatnonzero(item == Item.ITERATION).tolist():
        name[i] = len(texts)
        texts.append(f"#{int(rows['step'][i]) & 0x7FFFFFFF}")
    tids: list[int] = []  # of each line: its own number where that can be one
    for index, (ident, _, _, title) in enumerate(plane["lines"]):
        usable = 0 < ident < 1 << 31 and ident not in process.threads
        tids.append(ident if usable else (1 << 31) + len(process.threads) + index)
        process.threads[tids[-1]] = texts[title]
    thread = np.array(tids, np.int64)[rows["line"]]
    found: Structured = records(HOST_DTYPE, rows, item=item, name=name, thread=thread)[
        item != _SKIP
    ]
    return found
