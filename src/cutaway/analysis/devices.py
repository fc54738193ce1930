"""Device work and the calls that launched it: which operation each kernel belongs to, who uses which stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

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
    operation: NDArray[np.uint32]  # name id of the launching operation, 0 for none
    api_thread: NDArray[np.uint32] = field(default_factory=lambda: np.zeros(0, np.uint32))

    def attribute(self, api_operation: NDArray[np.uint32]) -> None:
        """Gives each piece of work its operation: its own, else that in force when it was launched."""
        own = self.records["operation"]
        inherited = np.zeros(len(own), np.uint32)
        known = self.launch >= 0
        inherited[known] = api_operation[self.launch[known]]
        self.operation = np.where(own != 0, own, inherited)

    @property
    def unattributed(self) -> NDArray[np.bool_]:
        """Work whose launch is outside the recording."""
        return np.asarray(self.busy & (self.launch < 0) & (self.records["operation"] == 0))


def device_work(process: ProcessTrace) -> DeviceWork:
    """Reads the accelerator's records of a process and finds the launch of each."""
    records, api = _in_order(process.device()), _in_order(process.api())
    busy = np.isin(records["kind"], list(DEVICE_LAYERS))
    key = records["device"].astype(np.uint64) << np.uint64(32) | records["stream"]
    stream = np.unique(key, return_inverse=True)[1].astype(np.uint32)
    none = np.zeros(len(records), np.uint32)
    return DeviceWork(records, api, busy, stream, _launches(records, api), none)


def launchers(work: DeviceWork, own: list[int]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """For each stream, the threads that launched on it, as offsets into one list. A stream nobody is known to
    have launched on counts for every thread of `own`."""
    streams = int(work.stream.max()) + 1 if len(work.stream) else 0
    known = work.busy & (work.launch >= 0)
    pairs: set[tuple[int, int]] = set()
    if known.any():
        thread = work.api_thread[work.launch[known]]
        both = work.stream[known].astype(np.uint64) << np.uint64(32) | thread
        pairs = {(pair >> 32, pair & 0xFFFFFFFF) for pair in np.unique(both).tolist()}
    used = {stream for stream, _ in pairs}
    pairs |= {(stream, thread) for stream in range(streams) if stream not in used for thread in own}
    ordered = sorted(pairs)
    offsets = np.searchsorted([stream for stream, _ in ordered], np.arange(streams + 1))
    return offsets.astype(np.uint32), np.array([thread for _, thread in ordered], np.uint32)


def by_device(works: Sequence[DeviceWork]) -> Iterator[tuple[int, Structured]]:
    """For each device, the work of all processes that made it busy."""
    numbers = {int(d) for work in works for d in np.unique(work.records["device"][work.busy])}
    for device in sorted(numbers):
        parts = [work.records[work.busy & (work.records["device"] == device)] for work in works]
        yield device, np.concatenate(parts)


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
