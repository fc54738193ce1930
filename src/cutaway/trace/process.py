"""One process of a run on disk: its log, its clocks, its records.

The native reader decodes records block by block when they are asked for (`ProcessTrace.events`, or the sweep), so memory does not
grow with the trace. What is damaged is counted in `losses` and stepped over.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.errors import CutawayError
from cutaway.record.storage import HOST
from cutaway.trace import format as fmt
from cutaway.trace.clocks import ClockMap, clock_map
from cutaway.trace.format import Structured
from cutaway.trace.hints import facts_of
from cutaway.trace.log import Anchor, Log, read_log
from cutaway.trace.past import NOTHING, Past, read_past
from cutaway.trace.pulses import Pulse
from cutaway.trace.sources import NOWHERE, BlockFile, Losses, Sources, as_bytes
from cutaway.vocabulary import SAMPLE_DOING, Clock, Kind, Stream, numbers

_ROOM = 1 << 16  # events of a block
_SLACK_NS = 3_600_000_000_000


class Stop(NamedTuple):
    """The recorder of a process gave up before the process ended: nothing after `t` is here."""

    t: int
    why: str


class Unfinished(NamedTuple):
    """A thread that was in the middle of something when its process was killed. Times are nanoseconds; `call` is 0
    outside all recorded calls, and `since` then is when it wrote its last record."""

    call: int
    since: int
    until: int


class ProcessTrace:
    """One process of a run on disk."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = Log()
        self.borrowed_anchors: list[Anchor] = []
        self._log_read = 0
        self._block_files: dict[str, BlockFile] = {}
        self.refresh()

    def refresh(self) -> None:
        """Takes in what was written since the last time."""
        path = self._read_log()
        torn = path.is_file() and path.stat().st_size > self._log_read
        self.losses = Losses(bad_lines=self.log.bad_lines + torn)
        self.stop: Stop | None = None
        for entry in reversed(self.log.losses):
            self.losses.dropped_events += entry.get("n") or 0
            if (
                entry.get("n") == 0
            ):  # a loss without a number is the recorder's last word
                why = str(entry.get("what") or "").removeprefix("recording stopped: ")
                self.stop = Stop(entry.get("t") or 0, why)
        self.past: Past | None = read_past(self.folder)
        found = Sources(self.folder, self.past, self.losses, self._block_files)
        self.files = found.files
        self.blocks = found.blocks
        self.device_sources = found.device
        self.device_gone = found.device_gone
        self.threads: dict[int, Structured] = found.threads
        stream = self.log.sample_stream
        if stream is None:
            self.samples = None
        else:
            self.samples = self.threads.pop(stream, None)
        self.written = dict(self.threads)
        self._pulses = found.follow_pulses()
        self._maps: dict[int, ClockMap] = {}
        self._native: _sweep.Process | None = None

    def _read_log(self) -> Path:
        path = self.folder / "log.jsonl"
        self._log_read = read_log(self.log, path, self._log_read)
        return path

    @property
    def pid(self) -> int:
        """As the operating system said."""
        return int(self.log.process.get("pid") or self.folder.name[1:].split("-")[0])

    @property
    def host(self) -> str:
        """The machine it ran on; part of a run of several hosts is in a folder named after its host."""
        part = self.folder.parent.name
        if part.startswith(HOST):
            return part.removeprefix(HOST)
        return str(self.log.process.get("host") or "")

    @property
    def parent_pid(self) -> int:
        """As the operating system said, on the same host."""
        return int(self.log.process.get("ppid") or 0)

    def move_clock(self, shift: int) -> None:
        """Reads everything again with all times moved: this process ran on another host."""
        self.log = Log(shift=shift)
        self._log_read = 0
        self.refresh()

    def native(self) -> _sweep.Process:
        """What the native reader must know of this process."""
        if self._native is None:
            self._read_log()  # live segments may hold calls that were logged since
            clocks = [self._map(clock).columns() for clock in numbers(Clock).values()]
            samples = as_bytes(NOWHERE if self.samples is None else self.samples)
            facts = facts_of(self.log)
            self._native = _sweep.Process(
                self.files,
                (facts.layers, facts.hints, facts.names, facts.untrained),
                clocks,
                *self._lifetime(),
                samples,
            )
        return self._native

    def reader(self, thread: int) -> _sweep.Reader:
        """Stands before the first event of a thread that may still run."""
        return _sweep.Reader(self.native(), as_bytes(self.written.get(thread, NOWHERE)))

    def events(
        self,
        thread: int,
        *,
        kinds: Iterable[int] = range(32),
        since: int = 0,
        reader: _sweep.Reader | None = None,
    ) -> Iterator[Structured]:
        """The events of a thread (`EVENT_DTYPE`), block by block, in nanoseconds, with the operation and the layer the thread
        is in from each on. `since` leaves out what ended before. A `reader` of this thread goes on where it stopped."""
        if reader is None:
            reader = _sweep.Reader(
                self.native(), as_bytes(self.threads.get(thread, NOWHERE))
            )
        else:
            reader.follow(self.native(), as_bytes(self.written.get(thread, NOWHERE)))
        mask = sum(1 << kind for kind in set(kinds))
        while len(raw := reader.read(_ROOM, max(since, 0), mask)):
            yield raw.view(fmt.EVENT_DTYPE)

    @property
    def unfinished(self) -> dict[int, Unfinished]:
        """By thread, what was going on when the process was killed (or now, if it is still being recorded)."""
        return {
            thread: Unfinished(
                pulse.call,
                *self.to_ns([pulse.since or last, pulse.until], Clock.TICKS).tolist(),
            )
            for thread, (pulse, last) in self._pulses.items()
        }

    def pulse(self, thread: int) -> Pulse | None:
        """Where a thread is that has written nothing for a while."""
        if thread in self._pulses:
            return self._pulses[thread][0]
        return None

    def last_record(self, thread: int) -> tuple[int, int] | None:
        """The kind of the last record that a thread wrote, and its end; None if there is none here."""
        for source in reversed(self.written.get(thread, ())):
            if len(found := self._decode(source)):
                kind = int(found["tag"][-1]) & 0xFF
                end = int(found["time"][-1]) + (
                    int(found["value"][-1]) if kind == Kind.CALL else 0
                )
                return kind, int(self.to_ns([end], int(source["clock"]))[0])
        return None

    def records(self, thread: int) -> Iterator[Structured]:
        """The raw records of a thread, one array a block, as they were written (in the block's own clock), for checks of the
        recorder. A damaged payload yields nothing."""
        return map(self._decode, self.threads.get(thread, ()))

    def stack_samples(
        self,
    ) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32]]]:
        """The sampled Python stacks, block by block: when (ns), of which thread, which frame (an id of `log.frames`)."""
        for times, threads, frames, _ in self.looks():
            yield times, threads, frames

    def looks(
        self,
    ) -> Iterator[
        tuple[
            NDArray[np.uint64],
            NDArray[np.uint32],
            NDArray[np.uint32],
            NDArray[np.uint32],
        ]
    ]:
        """The same, and what the system said of the thread (`Doing`). All threads are looked at within microseconds."""
        for source in self.samples if self.samples is not None else ():
            found = self._decode(source)
            found = found[fmt.kinds(found) == Kind.SAMPLE]
            yield (
                self.to_ns(found["time"], int(source["clock"])),
                fmt.ids(found),
                found["value"] & ((1 << SAMPLE_DOING) - 1),
                found["value"] >> SAMPLE_DOING,
            )

    def look_at_devices(self) -> _sweep.Devices:
        """What device.bin holds, and a way for the sweep to read it in order, block by block."""
        if self.past:
            past = self.past.devices.state
        else:
            past = NOTHING
        try:
            found = _sweep.look_at_devices(
                self.native(), as_bytes(self.device_sources), past
            )
        except ValueError as error:
            remedy = "remove it to see what was kept in full"
            raise CutawayError(
                f"{self.folder / 'past.bin'} is damaged ({error}); {remedy}."
            ) from None
        self.losses.late_device_records = found.late
        for stream, clock, damaged in found.damage:
            self.losses.damaged_device_blocks[stream, clock] = damaged
        return found

    def api(self) -> Structured:
        """All accelerator API calls, in nanoseconds, ordered by start."""
        return self._device_records(Stream.API, fmt.API_DTYPE)

    def device(self) -> Structured:
        """All device work, in nanoseconds, ordered by start."""
        return self._device_records(Stream.DEVICE, fmt.DEVICE_DTYPE)

    def _device_records(self, stream: int, dtype: np.dtype[Any]) -> Structured:
        parts = []
        sources = self.device_sources[self.device_sources["stream"] == stream]
        for clock in np.unique(sources["clock"]).tolist():
            part, damaged = self._device_left(sources[sources["clock"] == clock], dtype)
            self.losses.damaged_device_blocks[stream, clock] = damaged
            parts.append(part)
        if len(parts) == 1:
            out = parts[0]
        else:
            out = np.concatenate([np.zeros(0, dtype), *parts])
        start = np.ascontiguousarray(out["start"])
        if (start[1:] >= start[:-1]).all():
            return out
        return out[np.argsort(start, kind="stable")]

    def _device_left(
        self, sources: Structured, dtype: np.dtype[Any]
    ) -> tuple[Structured, int]:
        """As `device_part`, without what is in the totals of the past. What was told too late begins where these end."""
        past = self.past.devices if self.past else None
        if past is None or not past.until_ns:
            return self.device_part(sources, dtype)
        taken = dict(past.taken)
        parts = [np.zeros(0, dtype)]
        damaged = 0
        for at in range(len(sources)):
            part, bad = self.device_part(sources[at : at + 1], dtype)
            fresh = np.arange(len(part)) + bad >= taken.get(
                int(sources["offset"][at]), 0
            )
            parts.append(part[fresh | (part["start"] >= past.until_ns)])
            damaged += bad
        out = np.concatenate(parts)
        out["start"] = np.maximum(out["start"], past.until_ns)
        return out, damaged

    def device_part(
        self, sources: Structured, dtype: np.dtype[Any]
    ) -> tuple[Structured, int]:
        """The records of some blocks of one clock of device.bin, and how many blocks were damaged, and records of times
        at which the process did not live."""
        raw, damaged = _sweep.payloads(
            str(self.folder / "device.bin"), as_bytes(sources)
        )
        part = raw.view(dtype)
        if len(sources):
            clock = int(sources["clock"][0])
        else:
            clock = Clock.MONOTONIC
        if clock != Clock.MONOTONIC or self.log.shift:
            for column in ("start", "end"):
                part[column] = self.to_ns(part[column], clock)
        first, last = self._lifetime()
        fine = (
            (part["start"] >= first) & (part["end"] <= last) & (part["start"] <= last)
        )
        if fine.all():
            return (part, damaged)
        return (part[fine], damaged + int((~fine).sum()))

    def to_ns(self, times: Any, clock: int) -> Any:
        """Times of a clock as nanoseconds of CLOCK_MONOTONIC."""
        return self._map(clock).apply(times)

    def _map(self, clock: int) -> ClockMap:
        if clock not in self._maps:
            self._maps[clock] = clock_map(
                clock, self.log.anchors, self.borrowed_anchors, self.log.shift
            )
        return self._maps[clock]

    def _lifetime(self) -> tuple[int, int]:
        """Between which instants a record of this process can lie; far apart when it wrote no anchors."""
        monos = [anchor.mono for anchor in self.log.anchors]
        if not monos:
            return 0, (1 << 63) - 1
        return max(0, min(monos) - _SLACK_NS), max(monos) + _SLACK_NS

    def _decode(self, source: Any) -> Structured:
        return _sweep.decode(self.files[source["file"]], as_bytes(source))[0].view(
            fmt.RECORD_DTYPE
        )
