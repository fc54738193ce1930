"""Device work of the last seconds of a run that is being recorded, and what its meters say about the devices.

device.bin grows in place, chunk by chunk: only the newest chunks can have changed since the last look.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from cutaway import _sweep
from cutaway.analysis.intervals import length, union
from cutaway.trace import format as fmt
from cutaway.trace.clocks import clock_map
from cutaway.trace.log import Log

from .tail import source_of
from .timeline import Ints, nanoseconds

_HEAD = fmt.BLOCK_HEAD_DTYPE.itemsize
_LOOK_BACK = 256  # chunks behind the end that may still grow, and how far back the first look goes


class DeviceTail:
    """The device work of one process, read forward; keeps what reaches into the window."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.spans: Ints = np.zeros((0, 3), np.int64)  # device, start, end
        self._taken: dict[int, int] = {}  # records read, by where their block starts

    def read(self, log: Log) -> None:
        """Take in the records that were added."""
        try:
            with self.path.open("rb") as file:
                new = [self._block(at, head, log) for at, head in self._heads(file)]
        except OSError:
            return
        self.spans = np.concatenate([self.spans, *new])

    def trim(self, first: int) -> None:
        """Forget what ended before `first`."""
        self.spans = self.spans[self.spans[:, 2] > first]

    def _heads(self, file: Any) -> Iterable[tuple[int, Any]]:
        size = self.path.stat().st_size
        at = max(0, size // fmt.DEVICE_CHUNK - _LOOK_BACK) * fmt.DEVICE_CHUNK
        self._taken = {place: count for place, count in self._taken.items() if place >= at}
        while at + _HEAD <= size:
            file.seek(at)
            head = np.frombuffer(file.read(_HEAD), fmt.BLOCK_HEAD_DTYPE)[0]
            sound = head["magic"] == fmt.BLOCK_MAGIC
            whole = int(head["bytes"]) == int(head["count"]) * fmt.DEVICE_DTYPE.itemsize
            if sound and whole and head["stream"] == fmt.Stream.DEVICE:
                yield at, head
            long = _HEAD + int(head["bytes"]) if sound else 1
            at += -(-long // fmt.DEVICE_CHUNK) * fmt.DEVICE_CHUNK

    def _block(self, at: int, head: Any, log: Log) -> Ints:
        """What a block holds beyond what was read of it; one that is being written right now can wait."""
        if int(head["count"]) <= self._taken.get(at, 0):
            return np.zeros((0, 3), np.int64)
        raw, _ = _sweep.payloads(str(self.path), source_of(head, at + _HEAD))
        records = raw.view(fmt.DEVICE_DTYPE)[self._taken.get(at, 0) :]
        self._taken[at] = self._taken.get(at, 0) + len(records)
        records = records[np.isin(records["kind"], [int(kind) for kind in fmt.DEVICE_LAYERS])]
        map = clock_map(int(head["clock"]), log.anchors)
        times = [nanoseconds(records[name], map) for name in ("start", "end")]
        return np.stack([records["device"].astype(np.int64), *times], axis=1)


def busy(tails: Iterable[DeviceTail], span: tuple[int, int]) -> dict[int, float]:
    """The share of a stretch of time in which each device was busy."""
    spans = np.concatenate([np.zeros((0, 3), np.int64), *(tail.spans for tail in tails)])
    start, end = spans[:, 1].clip(*span), spans[:, 2].clip(*span)
    return {
        device: length(union(start[own], end[own])) / max(1, span[1] - span[0])
        for device in np.unique(spans[:, 0]).tolist()
        for own in [spans[:, 0] == device]
    }


def metered(samples: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The last readings of the meters: `gpu` by device, `power` in watts; empty where there are none."""
    found: dict[str, Any] = {}
    for sample in samples:
        for gpu in sample.get("gpu") or []:
            if isinstance(gpu, dict) and isinstance(gpu.get("id"), int):
                found.setdefault("gpu", {})[gpu["id"]] = gpu
        if isinstance(sample.get("power"), dict):
            found["power"] = sample["power"]
    return found
