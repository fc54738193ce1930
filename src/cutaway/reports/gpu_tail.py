"""Device work of the last seconds of a run that is being recorded, and what its meters say about the devices.

device.bin grows in place, chunk by chunk: only the newest chunks can have changed since the last look.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.intervals import length, union
from cutaway.trace import format as fmt
from cutaway.trace.reader import ProcessTrace

_LOOK_BACK = 256  # blocks behind the end that may still grow, and how far back the first look goes


class DeviceTail:
    """The device work of one process, read forward; keeps what reaches into the window."""

    def __init__(self) -> None:
        self.spans: NDArray[np.int64] = np.zeros((0, 3), np.int64)  # device, start, end
        self._taken: dict[int, int] = {}  # records read, by where their block starts

    def read(self, process: ProcessTrace) -> None:
        """Take in the records that were added. A block that is being written right now can wait."""
        sources = process.device_sources[process.device_sources["stream"] == fmt.Stream.DEVICE][-_LOOK_BACK:]
        new = [self.spans]
        for at in range(len(sources)):
            block = int(sources["offset"][at])
            taken = self._taken.get(block, 0)
            if int(sources["count"][at]) > taken:
                records = process.device_part(sources[at : at + 1], fmt.DEVICE_DTYPE)[0][taken:]
                self._taken[block] = taken + len(records)
                records = records[np.isin(records["kind"], [int(kind) for kind in fmt.DEVICE_LAYERS])]
                new.append(
                    np.stack([records[n].astype(np.int64) for n in ("device", "start", "end")], axis=1)
                )
        self.spans = np.concatenate(new)

    def trim(self, first: int) -> None:
        """Forget what ended before `first`."""
        self.spans = self.spans[self.spans[:, 2] > first]


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
