"""Device work and the calls that launched it: which operation each kernel belongs to, who uses which stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.trace.format import Structured
from cutaway.trace.reader import ProcessTrace
from cutaway.vocabulary import DEVICE_LAYERS

WHOLE_RUN, ANY_KIND = 5, 255  # in `DeviceTotals.unions`


@dataclass(frozen=True)
class DeviceTotals:
    """What the device work of a process adds up to that is not kept in full (native/sweep/device_totals.h). Of an operation and
    a thread -1 is unknown. `unions` are busy times by device, operation, kind (255: any) and part; `devices` has the
    busy time of each by part, and in how many periods a kernel ran, for each part and length of a period."""

    kernels: dict[str, NDArray[np.int64]]
    unions: dict[str, NDArray[np.int64]]
    devices: dict[str, NDArray[np.int64]]


@dataclass
class DeviceWork:
    """The device records of one process, ordered by start, with what is known about their launches."""

    records: Structured
    api: Structured
    busy: NDArray[np.bool_]  # kinds that make a device busy
    stream: NDArray[np.uint32]  # dense number of (device, stream)
    launch: NDArray[np.int64]  # position of the launching call in `api`, -1 if it was not recorded
    operation: NDArray[np.uint32]  # name id: its own, else that in force at the launch; 0: none
    api_thread: NDArray[np.uint32]  # position of the thread that made each call

    @property
    def unattributed(self) -> NDArray[np.bool_]:
        """Work whose launch is outside the recording."""
        return np.asarray(self.busy & (self.launch < 0) & (self.records["operation"] == 0))


def device_work(
    process: ProcessTrace, threads: dict[int, int], api_operation: NDArray[np.uint32]
) -> DeviceWork:
    """Reads the accelerator's records of a process and finds the launch of each. `threads`: positions by the number the system
    gave them; `api_operation`: what the sweep found in force at each call."""
    records, api = _in_order(process.device()), _in_order(process.api())
    busy = np.isin(records["kind"], list(DEVICE_LAYERS))
    key = records["device"].astype(np.uint64) << np.uint64(32) | records["stream"]
    stream = np.unique(key, return_inverse=True)[1].astype(np.uint32)
    launch = _launches(records, api)
    own, known = records["operation"], launch >= 0
    inherited = np.zeros(len(own), np.uint32)
    inherited[known] = api_operation[launch[known]]
    operation = np.where(own != 0, own, inherited)
    return DeviceWork(records, api, busy, stream, launch, operation, _translate(api["os_thread"], threads))


def _translate(values: NDArray[Any], table: dict[int, int]) -> NDArray[np.uint32]:
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([table[int(v)] for v in distinct], np.uint32)[inverse]


def launchers(
    found: _sweep.Devices, threads: list[int], own: list[int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """The threads that made API calls (`threads`), and for each stream those that launched on it, as offsets into one list. A
    stream nobody is known to have launched on counts for every thread of `own`."""
    pairs = {(stream, threads[thread]) for stream, thread in found.launched.reshape(-1, 2).tolist()}
    used = {stream for stream, _ in pairs}
    pairs |= {(stream, thread) for stream in range(found.streams) if stream not in used for thread in own}
    ordered = sorted(pairs)
    offsets = np.searchsorted([stream for stream, _ in ordered], np.arange(found.streams + 1))
    launched = np.array([thread for _, thread in ordered], np.uint32)
    return np.array(threads, np.uint32), offsets.astype(np.uint32), launched


def by_device(works: Sequence[DeviceWork]) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """For each device, start, end and kind of the work of all processes that made it busy."""
    works = [work for work in works if len(work.records)]
    numbers = {int(d) for work in works for d in np.unique(work.records["device"][work.busy])}
    for device in sorted(numbers):
        found: dict[str, list[NDArray[Any]]] = {"start": [], "end": [], "kind": []}
        for work in works:
            mine = work.busy & (work.records["device"] == device)
            for name, parts in found.items():
                parts.append(work.records[name][mine])
        yield device, {name: np.concatenate(parts) for name, parts in found.items()}


def _in_order(records: Structured) -> Structured:
    """A record that ends before it starts (a broken clock) has no length."""
    records["end"] = np.maximum(records["start"], records["end"])
    return records


def _launches(records: Structured, api: Structured) -> NDArray[np.int64]:
    out = np.full(len(records), -1, np.int64)
    if not len(api):
        return out
    known, first = np.unique(api["correlation"], return_index=True)
    at = np.minimum(np.searchsorted(known, records["correlation"]), len(known) - 1)
    found = (known[at] == records["correlation"]) & (records["correlation"] != 0)
    out[found] = first[at[found]]
    return out
