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
    records, api = process.device(), process.api()
    for events in (records, api):  # one that ends before it starts (a broken clock) has no length
        events["end"] = np.maximum(events["start"], events["end"])
    stream = np.unique(
        records["device"].astype(np.uint64) << np.uint64(32) | records["stream"], return_inverse=True
    )[1]
    launch = np.full(len(records), -1, np.int64)
    if len(api):
        ids, first = np.unique(api["correlation"], return_index=True)
        at = np.minimum(np.searchsorted(ids, records["correlation"]), len(ids) - 1)
        found = (ids[at] == records["correlation"]) & (records["correlation"] != 0)
        launch[found] = first[at[found]]
    operation, inherits = records["operation"].copy(), (records["operation"] == 0) & (launch >= 0)
    operation[inherits] = api_operation[launch[inherits]]
    callers, caller = np.unique(api["os_thread"], return_inverse=True)
    return DeviceWork(
        records=records,
        api=api,
        busy=np.isin(records["kind"], list(DEVICE_LAYERS)),
        stream=stream.astype(np.uint32),
        launch=launch,
        operation=operation,
        api_thread=np.array([threads[tid] for tid in callers.tolist()], np.uint32)[caller],
    )


def launchers(
    found: _sweep.Devices, threads: list[int], own: list[int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """For each stream, the threads that launched on it, as offsets into one list. `threads` are those that made API calls. A
    stream nobody is known to have launched on counts for every thread of `own`."""
    pairs = {(stream, threads[thread]) for stream, thread in found.launched.reshape(-1, 2).tolist()}
    used = {stream for stream, _ in pairs}
    pairs |= {(stream, thread) for stream in range(found.streams) if stream not in used for thread in own}
    ordered = sorted(pairs)
    offsets = np.searchsorted([stream for stream, _ in ordered], np.arange(found.streams + 1))
    return offsets.astype(np.uint32), np.array([thread for _, thread in ordered], np.uint32)


def by_device(works: Sequence[DeviceWork]) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """For each device, start, end and kind of the work of all processes that made it busy."""
    for device in sorted({int(d) for work in works for d in np.unique(work.records["device"][work.busy])}):
        mine = [(work.records, work.busy & (work.records["device"] == device)) for work in works]
        names = ("start", "end", "kind")
        yield device, {name: np.concatenate([all[name][at] for all, at in mine]) for name in names}
