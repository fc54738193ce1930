"""Reads a run folder: which processes it holds, what their logs say, where their records lie.

Opening a run reads logs and the heads of blocks only. The native reader decodes records block by block when they are
asked for (`ProcessTrace.events`, or the sweep), so memory does not grow with the trace. A run that is still being written
can be read, and read on with `Trace.refresh`. What is damaged is counted in `losses` and stepped over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.errors import CutawayError
from cutaway.record.storage import HOST
from cutaway.trace import format as fmt
from cutaway.trace.clocks import ClockMap, HostClock, clock_map, host_clocks
from cutaway.trace.files import is_folder, open_file, read_object
from cutaway.trace.format import Structured
from cutaway.trace.hints import facts_of
from cutaway.trace.kept import NOTHING, Past, read_past
from cutaway.trace.log import Anchor, Log, read_log
from cutaway.trace.pulses import Pulse, read_pulses, written
from cutaway.vocabulary import (
    FORMAT_VERSION,
    LARGEST_SEGMENT,
    SAMPLE_DOING,
    SEGMENT_MAGIC,
    UNUSED_SEQ,
    Clock,
    Kind,
    Stream,
    numbers,
)

_ROOM = 1 << 16  # events of a block
_SLACK_NS = 3_600_000_000_000
_NOWHERE = np.zeros(0, fmt.SOURCE_DTYPE)
_PROCESS = re.compile(r"p[0-9]+-.+", re.DOTALL)  # the name of its folder


@dataclass
class Losses:
    """What could not be read, or was not written, in one process."""

    damaged_blocks: int = 0
    damaged_device_blocks: dict[tuple[int, int], int] = field(default_factory=dict)
    damaged_bytes: int = 0
    bad_lines: int = 0
    missing_segments: int = 0
    dropped_events: int = 0
    late_device_records: int = (
        0  # whose time is in the totals of the past already, without them
    )

    @property
    def total(self) -> int:
        """Everything together; 0 means that nothing is known to be missing."""
        damaged = self.damaged_blocks + sum(self.damaged_device_blocks.values())
        lost = self.bad_lines + self.missing_segments + self.dropped_events
        return damaged + lost + self.late_device_records


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
        self.files: list[str] = []
        self.past: Past | None = read_past(self.folder)
        # Segments before blocks: one that is packed between the two looks is in both then, never in none.
        segments = self._segments()
        self.device_sources = self._device_blocks()
        self.threads: dict[int, Structured] = self._thread_sources(segments)
        stream = self.log.sample_stream
        self.samples = None if stream is None else self.threads.pop(stream, None)
        self.written = dict(self.threads)
        self._pulses = self._follow_pulses()
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
        self.log, self._log_read = Log(shift=shift), 0
        self.refresh()

    def native(self) -> _sweep.Process:
        """What the native reader must know of this process."""
        if self._native is None:
            self._read_log()  # live segments may hold calls that were logged since
            clocks = [self._map(clock).columns() for clock in numbers(Clock).values()]
            samples = _bytes(_NOWHERE if self.samples is None else self.samples)
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
        return _sweep.Reader(self.native(), _bytes(self.written.get(thread, _NOWHERE)))

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
                self.native(), _bytes(self.threads.get(thread, _NOWHERE))
            )
        else:
            reader.follow(self.native(), _bytes(self.written.get(thread, _NOWHERE)))
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
        recorder. A damaged payload gives nothing."""
        return map(self._decode, self.threads.get(thread, ()))

    def stack_samples(
        self,
    ) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32]]]:
        """The sampled Python stacks, block by block: when (ns), of which thread, which frame (an id of `log.frames`)."""
        for source in self.samples if self.samples is not None else ():
            found = self._decode(source)
            found = found[fmt.kinds(found) == Kind.SAMPLE]
            yield (
                self.to_ns(found["time"], int(source["clock"])),
                fmt.ids(found),
                found["value"] & ((1 << SAMPLE_DOING) - 1),
            )

    def look_at_devices(self) -> _sweep.Devices:
        """What device.bin holds, and a way for the sweep to read it in order, block by block."""
        past = self.past.devices.state if self.past else NOTHING
        try:
            found = _sweep.look_at_devices(
                self.native(), _bytes(self.device_sources), past
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
        out = (
            parts[0]
            if len(parts) == 1
            else np.concatenate([np.zeros(0, dtype), *parts])
        )
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
        raw, damaged = _sweep.payloads(str(self.folder / "device.bin"), _bytes(sources))
        part = raw.view(dtype)
        clock = int(sources["clock"][0]) if len(sources) else Clock.MONOTONIC
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
        return _sweep.decode(self.files[source["file"]], _bytes(source))[0].view(
            fmt.RECORD_DTYPE
        )

    def _device_blocks(self) -> Structured:
        """Blocks of device.bin; of those that are in the past only, `device_gone` says where some are still there."""
        found = self._scan("device.bin", chunked=True)
        gone = np.isin(found["offset"], self.past.devices.gone if self.past else ())
        self.device_gone: list[int] = found["offset"][gone].tolist()
        return found[~gone]

    def _scan(self, name: str, *, chunked: bool, start: int = 0) -> Structured:
        path = str(self.folder / name)
        raw, damaged, damaged_bytes = _sweep.scan(path, chunked, start)
        sources = raw.view(fmt.SOURCE_DTYPE)
        sources["file"] = len(self.files)
        self.files.append(path)
        self.losses.damaged_blocks += damaged
        self.losses.damaged_bytes += damaged_bytes
        return sources

    def _segments(self) -> Structured:
        """The live segments; one that vanishes meanwhile was packed a moment ago."""
        found = [_NOWHERE]
        for path in sorted(self.folder.glob("live-*.seg")):
            try:
                with open_file(path) as file:
                    raw = file.read(fmt.SEGMENT_HEAD_DTYPE.itemsize)
                    size = min(os.fstat(file.fileno()).st_size, LARGEST_SEGMENT)
            except OSError:
                continue
            whole = len(raw) == fmt.SEGMENT_HEAD_DTYPE.itemsize
            head = np.frombuffer(raw, fmt.SEGMENT_HEAD_DTYPE)[0] if whole else None
            if (
                head is None
                or head["magic"] != SEGMENT_MAGIC
                or head["version"] != FORMAT_VERSION
            ):
                self.losses.damaged_blocks += any(raw) if whole else bool(raw)
            elif head["seq"] != UNUSED_SEQ:
                about = {name: int(head[name]) for name in ("clock", "thread", "seq")}
                room = (size - len(raw)) // fmt.RECORD_DTYPE.itemsize
                found.append(_source(len(raw), room, file=len(self.files), **about))
                self.files.append(str(path))
        return np.concatenate(found)

    def _thread_sources(self, segments: Structured) -> dict[int, Structured]:
        """Blocks and live segments of each thread by sequence number; a segment that also stands in a sound
        block is a duplicate."""
        blocks = self._scan(
            "events.bin", chunked=False, start=self.past.offset if self.past else 0
        )
        self.blocks = blocks = blocks[blocks["stream"] == Stream.THREAD]
        if self.losses.damaged_blocks and len(segments):
            self._forgive_torn_end(blocks, segments)
        chosen = {
            key: i for i, key in enumerate(_keys(blocks))
        }  # of two with the same key the last counts
        for i, key in enumerate(_keys(segments), len(blocks)):
            block = (
                blocks[chosen[key]]
                if chosen.get(key, len(blocks)) < len(blocks)
                else None
            )
            if (
                block is None
                or _sweep.payloads(self.files[block["file"]], _bytes(block))[1]
            ):
                chosen[key] = i
        found = np.concatenate([blocks, segments])[
            [chosen[key] for key in sorted(chosen)]
        ]
        threads: dict[int, Structured] = {}
        for thread in np.unique(found["thread"]).tolist():
            threads[thread] = own = np.ascontiguousarray(
                found[found["thread"] == thread]
            )
            first = int(own["seq"][0]) if self.past else 0
            self.losses.missing_segments += min(
                int(own["seq"][-1]) + 1 - first - len(own), 1 << 20
            )
        return threads

    def _forgive_torn_end(self, blocks: Structured, segments: Structured) -> None:
        """A kill while a segment is packed leaves the beginning of its block, and the segment: nothing is lost."""
        end = int((blocks["offset"] + blocks["bytes"]).max()) if len(blocks) else 0
        try:
            with open_file(self.folder / "events.bin") as file:
                file.seek(end)
                raw = file.read(fmt.BLOCK_HEAD_DTYPE.itemsize)
                torn = file.seek(0, 2) - end
        except OSError:
            return
        head = (
            np.frombuffer(raw, fmt.BLOCK_HEAD_DTYPE)
            if len(raw) == fmt.BLOCK_HEAD_DTYPE.itemsize
            else None
        )
        if torn > 0 and (
            head is None
            or int(head["id"][0]) << 32 | int(head["seq"][0]) in _keys(segments)
        ):
            self.losses.damaged_blocks -= 1
            self.losses.damaged_bytes -= torn

    def _follow_pulses(self) -> dict[int, tuple[Pulse, int]]:
        """Lets the stream of a thread go on to its last pulse; with each pulse, the end of the last record before."""
        path = self.folder / "pulse.bin"
        found = {}
        for pulse in read_pulses(path):
            sources = self.threads.get(pulse.thread)
            if (
                sources is None
                or sources[-1]["packed"]
                or sources[-1]["seq"] != pulse.seq
            ):
                continue
            count, last = written(self.files[sources[-1]["file"]], sources[-1])
            if count == pulse.written:
                about = {
                    "thread": pulse.thread,
                    "seq": pulse.seq,
                    "file": len(self.files),
                }
                source = _source(pulse.offset, pulse.records, **about)
                self.threads[pulse.thread] = np.concatenate([sources, source])
                found[pulse.thread] = pulse, last
        if found:
            self.files.append(str(path))
        return found


def _bytes(sources: Any) -> NDArray[np.uint8]:
    return np.array(sources, fmt.SOURCE_DTYPE).reshape(-1).view(np.uint8)


def _source(offset: int, records: int, **about: int) -> Structured:
    """Where plain records lie."""
    source = np.zeros(1, fmt.SOURCE_DTYPE)
    about |= {
        "offset": offset,
        "count": records,
        "bytes": records * fmt.RECORD_DTYPE.itemsize,
    }
    for name, value in about.items():
        source[name] = value
    return source


def _keys(sources: Structured) -> list[int]:
    keys: list[int] = (
        sources["thread"].astype(np.uint64) << np.uint64(32) | sources["seq"]
    ).tolist()
    return keys


@dataclass
class Trace:
    """A run on disk."""

    path: Path
    about: dict[str, Any]
    processes: list[ProcessTrace] = field(default_factory=list)
    hosts: dict[str, HostClock] = field(default_factory=dict)
    ended: dict[str, Any] = field(
        default_factory=dict
    )  # how the command ended, as `cutaway run` saw it

    @property
    def facts(self) -> dict[str, Any]:
        """What the program told with `cutaway.describe`, in any of its processes."""
        found: dict[str, Any] = {}
        for process in self.processes:
            found.update(process.log.facts)
        return found

    def refresh(self) -> None:
        """Takes in what was written since the run was opened: new processes, and what the others did meanwhile."""
        self.ended = read_object(self.path / "exit.json")
        known = {process.folder for process in self.processes}
        for process in self.processes:
            process.refresh()
        self.processes += [
            ProcessTrace(folder)
            for folder in _folders(self.path)
            if folder not in known
        ]
        self._align_clocks()
        self.processes.sort(key=lambda p: (p.log.process.get("t", 0), p.pid))
        anchors: dict[str, list[Anchor]] = {}
        for process in self.processes:
            process.borrowed_anchors = anchors.setdefault(process.host, [])
            process.borrowed_anchors += process.log.anchors
        self._number_workers()

    def positions(self) -> dict[tuple[str, int], int]:
        """Where the process of a host and a pid stands in `processes`."""
        return {
            (process.host, process.pid): index
            for index, process in enumerate(self.processes)
        }

    def _align_clocks(self) -> None:
        """Several hosts, several clocks: all times become those of one of them."""
        hosts = {process.host for process in self.processes}
        if len(hosts) < 2:
            return
        if not hosts <= self.hosts.keys():
            self.hosts = host_clocks(
                (process.host, process.log) for process in self.processes
            )
        for process in self.processes:
            shift = self.hosts[process.host].shift_ns
            if process.log.shift != shift:
                process.move_clock(shift)
            name = str(process.log.process.get("name") or f"pid {process.pid}")
            if not name.startswith(f"{process.host}: "):
                process.log.process["name"] = f"{process.host}: {name}"

    def _number_workers(self) -> None:
        """Ray's workers know their class, not how many of it there are: `Sampler#1`, `Sampler#2`, in order of their start."""
        by_name: dict[str, list[ProcessTrace]] = {}
        for process in self.processes:
            if any(on.startswith(("actor:", "task:")) for on, _ in process.log.feeds):
                by_name.setdefault(str(process.log.process.get("name")), []).append(
                    process
                )
        for name, members in by_name.items():
            known = sum(other.startswith(f"{name}#") for other in by_name)
            for number, process in enumerate(members, known + 1):
                if "#" not in name and known + len(members) > 1:
                    process.log.process["name"] = f"{name}#{number}"


def read_run(path: str | Path) -> Trace:
    """Opens a run folder."""
    folder = Path(path)
    if not folder.exists():
        raise CutawayError(
            f"There is no run at {folder}; name a folder NAME.cutaway that `cutaway run` made."
        )
    if not _folders(folder) and not (folder / "run.json").is_file():
        raise CutawayError(
            f"{folder} is not a Cutaway run; record one with `cutaway run` or `cutaway import`."
        )
    about = read_object(folder / "run.json")
    if isinstance(about.get("format"), int) and about["format"] > FORMAT_VERSION:
        raise CutawayError(
            f"{folder} was written by a newer Cutaway (format {about['format']}); update to read it."
        )
    trace = Trace(folder, about)
    trace.refresh()
    return trace


def _folders(run: Path) -> list[Path]:
    """Of the processes that wrote anything."""
    parts = (
        [run, *(part for part in run.glob(f"{HOST}*") if is_folder(part))]
        if run.is_dir()
        else []
    )
    inside = chain.from_iterable(part.glob("p*-*") for part in parts)
    return [
        p
        for p in inside
        if _PROCESS.fullmatch(p.name) and is_folder(p) and any(p.iterdir())
    ]
