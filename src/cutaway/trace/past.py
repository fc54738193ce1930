"""past.bin: what is known of a process before the stretch that it keeps in full, as bytes of the native sweep.

One line of JSON with its checksum in front, as in log.jsonl, then the state. It is replaced whole, so it is the old one or the new one.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.errors import CutawayError
from cutaway.trace.files import open_file, parse_object

NAME = "past.bin"
LAYOUT = 2
"""Of the state: raised when a class of the sweep saves other members."""
_LONGEST_HEAD = 1 << 20
NOTHING = np.zeros(0, np.uint8)


@dataclass(frozen=True)
class DevicePast:
    """Of device.bin: records that began before `until_ns` and were there (so many of the block at each offset, `taken`) are in the
    state. Blocks at `gone` are given back, or will be. `state`: what the native reader must know of them."""

    until_ns: int
    taken: tuple[tuple[int, int], ...]
    gone: tuple[int, ...]
    state: NDArray[np.uint8]


@dataclass(frozen=True)
class Past:
    """`until_ns`: all that ended before is in `state`. `offset`: where events.bin goes on. `steady_ns`: when the run had its second
    iteration; 0: it had none. `edge_ns`: when its first work began; 0: there was none, or nobody asked. `threads`: their ids in the
    order of the state; one that only device records know is -1 - tid. `bins`: origin and width of the stretches in it. `devices`:
    what device.bin held. `first_iteration_ns`: when it began; 0: there was none.
    `calibrating`: threads that calibration had paused. `last_work`: of a process that has
    ended, whether it made updates, and when the last work was done (see analysis/stages.py)."""

    until_ns: int
    steady_ns: int
    edge_ns: int
    offset: int
    threads: tuple[int, ...]
    bins: tuple[int, int, int]
    state: NDArray[np.uint8]
    devices: DevicePast
    first_iteration_ns: int = 0
    calibrating: tuple[int, ...] = ()
    last_work: tuple[bool, int] | None = None


def read_past(folder: Path) -> Past | None:
    """What a process folder holds; None if there is nothing, or nothing sound."""
    try:
        with open_file(folder / NAME) as file:
            line = file.readline(_LONGEST_HEAD)
            state = file.read()
        head = parse_object(line[9:])
        layout = head.get("layout", 1)
        sound = line[:8] == b"%08x" % _sweep.crc32c(line[9:].rstrip(b"\n"), 0)
        if not sound or _sweep.crc32c(state, 0) != head["crc"]:
            return None
        until, steady, edge, offset = (
            int(head[key]) for key in ("until_ns", "steady_ns", "edge_ns", "offset")
        )
        threads, (origin, width, count) = (
            tuple(map(int, head["threads"])),
            map(int, head["bins"]),
        )
        about = head["devices"]
        size = int(head["state_bytes"])
        taken = tuple((int(offset), int(count)) for offset, count in about["taken"])
        raw = np.frombuffer(state, np.uint8)
        gone = tuple(int(offset) for offset in about["gone"])
        devices = DevicePast(int(about["until_ns"]), taken, gone, raw[size:])
        first_iteration = int(head.get("first_iteration_ns", 0))
        calibrating = tuple(map(int, head.get("calibrating", ())))
        last = head.get("last_work")
        if last:
            last_work = (bool(last[0]), int(last[1]))
        else:
            last_work = None
    except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
    if layout != LAYOUT:
        remedy = "read this run with the version that recorded it"
        raise CutawayError(
            f"{folder / NAME} holds totals of another version of Cutaway; {remedy}."
        )
    bins = origin, width, count
    return Past(
        until,
        steady,
        edge,
        offset,
        threads,
        bins,
        raw[:size],
        devices,
        first_iteration,
        calibrating,
        last_work,
    )


def to_bytes(past: Past) -> bytes:
    state = past.state.tobytes() + past.devices.state.tobytes()
    about = {key: value for key, value in asdict(past).items() if key != "state"}
    del about["devices"]["state"]
    about |= {
        "layout": LAYOUT,
        "state_bytes": len(past.state),
        "crc": _sweep.crc32c(state, 0),
    }
    text = json.dumps(about).encode()
    return b"%08x %s\n%s" % (_sweep.crc32c(text, 0), text, state)


def write_past(folder: Path, past: Past) -> None:
    """Replaces what was there."""
    draft = folder / f".{NAME}"
    private = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600
    )
    with os.fdopen(private, "wb") as file:
        file.write(to_bytes(past))
    draft.replace(folder / NAME)
