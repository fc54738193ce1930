"""Reads a run folder: which processes it holds, what their logs say, where their records lie.

Opening a run reads logs and the heads of blocks only. The native reader decodes records block by block when they are
asked for (`ProcessTrace.events`, or the sweep), so memory does not grow with the trace. A run that is still being written
can be read, and read on with `Trace.refresh`. What is damaged is counted in `losses` and stepped over.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.errors import CutawayError
from cutaway.record.places import HOST
from cutaway.trace import format as fmt
from cutaway.trace.clocks import ClockMap, clock_map
from cutaway.trace.files import is_folder, open_file, read_object
from cutaway.trace.format import Structured
from cutaway.trace.hosts import HostClock, host_clocks
from cutaway.trace.kept import NOTHING, Past, read_past
from cutaway.trace.log import Anchor, Log, read_log
from cutaway.trace.pulses import Pulse, read_pulses, written
from cutaway.vocabulary import (
    FORMAT_VERSION,
    LARGEST_SEGMENT,
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


@dataclass
class Losses:
    """What could not be read, or was not written, in one process."""

    damaged_blocks: int = 0
    damaged_device_blocks: dict[tuple[int, int], int] = field(default_factory=dict)
    damaged_bytes: int = 0
    bad_lines: int = 0
    missing_segments: int = 0
    dropped_events: int = 0
    late_device_records: int = 0  # whose time is in the totals of the past already, without them

    @property
    def total(self) -> int:
        """Everything together; 0 means that nothing is known to be missing."""
        damaged = self.damaged_blocks + sum(self.damaged_device_blocks.values())
        lost = self.bad_lines + self.missing_segments + self.dropped_events
        return damaged + lost + self.late_device_records


@dataclass(frozen=True)
class Stop:
    """The recorder of a process gave up before the process ended: nothing after `t` is here."""

    t: int
    why: str


@dataclass(frozen=True)
class Unfinished:
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
        path = self.folder / "log.jsonl"
        self._log_read = read_log(self.log, path, self._log_read)
        torn = path.is_file() and path.stat().st_size > self._log_read
        self.losses = Losses(bad_lines=self.log.bad_lines + torn)
        self.losses.dropped_events = sum(_count(entry.get("n")) for entry in self.log.losses)
        self.stop = _stop(self.log)
        self.files: list[str] = []
        self.past: Past | None = read_past(self.folder)
        # Segments before blocks: one that is packed between the two looks is in both then, never in none.
        segments = self._segments()
        self.device_sources = self._device_blocks()
        self.threads: dict[int, Structured] = self._thread_sources(segments)
        self.samples = self.threads.pop(
            -1 if self.log.sample_stream is None else self.log.sample_stream, None
        )
        self.written = dict(self.threads)
        self._pulses = self._follow_pulses()
        self._maps: dict[int, ClockMap] = {}
        self._native: _sweep.Process | None = None

    @property
    def pid(self) -> int:
        """As the operating system said."""
        return int(self.log.process.get("pid") or self.folder.name[1:].split("-")[0])

    @property
    def host(self) -> str:
        """The machine it ran on; part of a run of several hosts is in a folder named after its host."""
        part = self.folder.parent.name
        return part.removeprefix(HOST) if part.startswith(HOST) else str(self.log.process.get("host") or "")

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
            clocks = [self._map(clock).columns() for clock in numbers(Clock).values()]
            log = str(self.folder / "log.jsonl")
            self._native = _sweep.Process(self.files, log, clocks, *_bounds(self.log.anchors))
        return self._native

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
            reader = _sweep.Reader(self.native(), _bytes(self.threads.get(thread, _NOWHERE)))
        else:
            reader.follow(self.native(), _bytes(self.written.get(thread, _NOWHERE)))
        mask = sum(1 << kind for kind in set(kinds))
        while len(raw := reader.read(_ROOM, max(since, 0), mask)):
            yield raw.view(fmt.EVENT_DTYPE)

    def reader(self, thread: int) -> _sweep.Reader:
        """Stands before the first event of a thread that may still run."""
        return _sweep.Reader(self.native(), _bytes(self.written.get(thread, _NOWHERE)))

    @property
    def unfinished(self) -> dict[int, Unfinished]:
        """By thread, what was going on when the process was killed (or now, if it is still being recorded)."""
        found = {}
        for thread, (pulse, last) in self._pulses.items():
            since, until = self.to_ns([pulse.since or last, pulse.until], Clock.TICKS).tolist()
            found[thread] = Unfinished(pulse.call, since, until)
        return found

    def last_record(self, thread: int) -> tuple[int, int] | None:
        """The kind of the last record that a thread wrote, and its end; None if there is none here."""
        for source in reversed(self.written.get(thread, ())):
            raw, _ = _sweep.decode(self.files[source["file"]], _bytes(source))
            if len(raw):
                last = raw.view(fmt.RECORD_DTYPE)[-1]
                kind = int(last["tag"]) & 0xFF
                end = int(last["time"]) + (int(last["value"]) if kind == Kind.CALL else 0)
                return kind, int(self.to_ns([end], int(source["clock"]))[0])
        return None

    def pulse(self, thread: int) -> Pulse | None:
        """Where a thread is that has written nothing for a while."""
        return self._pulses[thread][0] if thread in self._pulses else None

    def records(self, thread: int) -> Iterator[Structured]:
        """The raw records of a thread, one array a block, as they were written (in the block's own clock), for checks of the
        recorder. A damaged payload gives nothing."""
        for source in self.threads.get(thread, ()):
            raw, _ = _sweep.decode(self.files[source["file"]], _bytes(source))
            yield raw.view(fmt.RECORD_DTYPE)

    def stack_samples(self) -> Iterator[tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint32]]]:
        """The sampled Python stacks, block by block: when (ns), of which thread, which frame (an id of `log.frames`)."""
        for source in self.samples if self.samples is not None else ():
            raw, _ = _sweep.decode(self.files[source["file"]], _bytes(source))
            found = raw.view(fmt.RECORD_DTYPE)
            found = found[fmt.kinds(found) == Kind.SAMPLE]
            yield self.to_ns(found["time"], int(source["clock"])), fmt.ids(found), found["value"]

    def look_at_devices(self) -> _sweep.Devices:
        """What device.bin holds, and a way for the sweep to read it in order, block by block."""
        past = self.past.devices.state if self.past else NOTHING
        try:
            found = _sweep.look_at_devices(self.native(), _bytes(self.device_sources), past)
        except ValueError as error:
            remedy = "remove it to see what was kept in full"
            raise CutawayError(f"{self.folder / 'past.bin'} is damaged ({error}); {remedy}.") from None
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
        out = parts[0] if len(parts) == 1 else np.concatenate([np.zeros(0, dtype), *parts])
        start = np.ascontiguousarray(out["start"])
        return out if (start[1:] >= start[:-1]).all() else out[np.argsort(start, kind="stable")]

    def _device_left(self, sources: Structured, dtype: np.dtype[Any]) -> tuple[Structured, int]:
        """As `device_part`, without what is in the totals of the past. What was told too late begins where these end."""
        past = self.past.devices if self.past else None
        if past is None or not past.until_ns:
            return self.device_part(sources, dtype)
        taken, parts, damaged = dict(past.taken), [np.zeros(0, dtype)], 0
        for at in range(len(sources)):
            part, bad = self.device_part(sources[at : at + 1], dtype)
            fresh = np.arange(len(part)) + bad >= taken.get(int(sources["offset"][at]), 0)
            parts.append(part[fresh | (part["start"] >= past.until_ns)])
            damaged += bad
        out = np.concatenate(parts)
        out["start"] = np.maximum(out["start"], past.until_ns)
        return out, damaged

    def device_part(self, sources: Structured, dtype: np.dtype[Any]) -> tuple[Structured, int]:
        """The records of some blocks of one clock of device.bin, and how many blocks were damaged, and records of times
        at which the process did not live."""
        chosen = np.ascontiguousarray(sources)
        raw, damaged = _sweep.payloads(str(self.folder / "device.bin"), chosen.view(np.uint8))
        part = raw.view(dtype)
        same_clock = not len(chosen) or (chosen["clock"][0] == Clock.MONOTONIC and not self.log.shift)
        for column in () if same_clock else ("start", "end"):
            part[column] = self.to_ns(part[column], int(chosen["clock"][0]))
        first, last = _bounds(self.log.anchors)
        fine = (part["start"] >= first) & (part["end"] <= last) & (part["start"] <= last)
        return (part, damaged) if fine.all() else (part[fine], damaged + int((~fine).sum()))

    def to_ns(self, times: Any, clock: int) -> Any:
        """Times of a clock as nanoseconds of CLOCK_MONOTONIC."""
        return self._map(clock).apply(times)

    def _map(self, clock: int) -> ClockMap:
        if clock not in self._maps:
            self._maps[clock] = clock_map(clock, self.log.anchors, self.borrowed_anchors, self.log.shift)
        return self._maps[clock]

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

    def _thread_sources(self, segments: Structured) -> dict[int, Structured]:
        """Blocks and live segments of each thread by sequence number; a segment that also stands in a sound
        block is a duplicate."""
        blocks = self._scan("events.bin", chunked=False, start=self.past.offset if self.past else 0)
        self.blocks = blocks = blocks[blocks["stream"] == Stream.THREAD]
        if self.losses.damaged_blocks and len(segments):
            self._forgive_torn_end(blocks, segments)
        packed = {key: i for i, key in enumerate(_keys(blocks).tolist())}
        fresh = [
            i
            for i, key in enumerate(_keys(segments).tolist())
            if key not in packed or self._broken(blocks[packed[key]])
        ]
        found = np.concatenate([blocks, segments[fresh]])
        keys = _keys(found)
        order = np.argsort(keys, kind="stable")  # of two with the same key the last counts
        found = found[order[np.append(np.diff(keys[order]) != 0, True)[: len(order)]]]
        threads: dict[int, Structured] = {}
        for thread in np.unique(found["thread"]).tolist():
            threads[thread] = own = np.ascontiguousarray(found[found["thread"] == thread])
            first = int(own["seq"][0]) if self.past else 0
            self.losses.missing_segments += min(int(own["seq"][-1]) + 1 - first - len(own), 1 << 20)
        return threads

    def _broken(self, block: Any) -> bool:
        return bool(_sweep.payloads(self.files[block["file"]], _bytes(block))[1])

    def _forgive_torn_end(self, blocks: Structured, segments: Structured) -> None:
        """A kill while a segment is packed leaves the beginning of its block, and the segment: nothing is lost."""
        end = int((blocks["offset"] + blocks["bytes"]).max()) if len(blocks) else 0
        try:
            with open_file(self.folder / "events.bin") as file:
                file.seek(end)
                head = file.read(fmt.BLOCK_HEAD_DTYPE.itemsize)
                torn = file.seek(0, 2) - end
        except OSError:
            return
        whole = len(head) == fmt.BLOCK_HEAD_DTYPE.itemsize
        fields = np.frombuffer(head, fmt.BLOCK_HEAD_DTYPE)[0] if whole else None
        if torn > 0 and (fields is None or (int(fields["id"]) << 32 | int(fields["seq"])) in _keys(segments)):
            self.losses.damaged_blocks -= 1
            self.losses.damaged_bytes -= torn

    def _follow_pulses(self) -> dict[int, tuple[Pulse, int]]:
        """Lets the stream of a thread go on to its last pulse; with each pulse, the end of the last record before."""
        path, found = self.folder / "pulse.bin", {}
        for pulse in read_pulses(path):
            sources = self.threads.get(pulse.thread)
            if sources is None or sources[-1]["packed"] or sources[-1]["seq"] != pulse.seq:
                continue
            count, last = written(self.files[sources[-1]["file"]], sources[-1])
            if count != pulse.written:
                continue
            about = {"thread": pulse.thread, "seq": pulse.seq, "file": len(self.files)}
            source = _source(pulse.offset, pulse.records, **about)
            self.threads[pulse.thread] = np.concatenate([sources, source])
            found[pulse.thread] = pulse, last
        if found:
            self.files.append(str(path))
        return found

    def _segments(self) -> Structured:
        found = [np.zeros(0, fmt.SOURCE_DTYPE)]
        for path in sorted(self.folder.glob("live-*.seg")):
            try:
                with open_file(path) as file:
                    head = file.read(fmt.SEGMENT_HEAD_DTYPE.itemsize)
                    size = min(os.fstat(file.fileno()).st_size, LARGEST_SEGMENT)
            except OSError:
                continue  # packed a moment ago
            if len(head) < fmt.SEGMENT_HEAD_DTYPE.itemsize:
                self.losses.damaged_blocks += bool(head)
                continue
            fields = np.frombuffer(head, fmt.SEGMENT_HEAD_DTYPE)[0]
            if fields["magic"] != SEGMENT_MAGIC or fields["version"] != FORMAT_VERSION:
                self.losses.damaged_blocks += any(head)
                continue
            if fields["seq"] == UNUSED_SEQ:
                continue
            about = {name: fields[name] for name in ("clock", "thread", "seq")}
            room = (size - len(head)) // fmt.RECORD_DTYPE.itemsize
            found.append(_source(len(head), room, file=len(self.files), **about))
            self.files.append(str(path))
        return np.concatenate(found)


def _source(offset: int, records: int, **about: int) -> Structured:
    """Where plain records lie."""
    source = np.zeros(1, fmt.SOURCE_DTYPE)
    source["offset"], source["count"], source["bytes"] = offset, records, records * fmt.RECORD_DTYPE.itemsize
    for name, value in about.items():
        source[name] = value
    return source


def _keys(sources: Structured) -> NDArray[np.uint64]:
    return np.asarray(sources["thread"].astype(np.uint64) << np.uint64(32) | sources["seq"], np.uint64)


def _bounds(anchors: Iterable[Anchor]) -> tuple[int, int]:
    """Between which instants a record of this process can lie; far apart when it wrote no anchors."""
    monos = [anchor.mono for anchor in anchors]
    if not monos:
        return 0, (1 << 63) - 1
    return max(0, min(monos) - _SLACK_NS), max(monos) + _SLACK_NS


@dataclass
class Trace:
    """A run on disk."""

    path: Path
    about: dict[str, Any]
    processes: list[ProcessTrace] = field(default_factory=list)
    hosts: dict[str, HostClock] = field(default_factory=dict)
    ended: dict[str, Any] = field(default_factory=dict)  # how the command ended, as `cutaway run` saw it

    @property
    def facts(self) -> dict[str, Any]:
        """What the program told with `cutaway.describe`, in any of its processes."""
        return {name: value for process in self.processes for name, value in process.log.facts.items()}

    def refresh(self) -> None:
        """Takes in what was written since the run was opened: new processes, and what the others did meanwhile."""
        self.ended = read_object(self.path / "exit.json")
        known = {process.folder for process in self.processes}
        for process in self.processes:
            process.refresh()
        self.processes += [ProcessTrace(folder) for folder in _folders(self.path) if folder not in known]
        self._align_clocks()
        self.processes.sort(key=lambda p: (_count(p.log.process.get("t")), p.pid))
        by_host: dict[Any, list[Anchor]] = {}
        for process in self.processes:
            by_host.setdefault(process.host, []).extend(process.log.anchors)
        for process in self.processes:
            process.borrowed_anchors = by_host[process.host]
        _number_workers(self.processes)

    def positions(self) -> dict[tuple[str, int], int]:
        """Where the process of a host and a pid stands in `processes`."""
        return {(process.host, process.pid): index for index, process in enumerate(self.processes)}

    def _align_clocks(self) -> None:
        """Several hosts, several clocks: all times become those of one of them."""
        hosts = {process.host for process in self.processes}
        if len(hosts) < 2:
            return
        if not hosts <= self.hosts.keys():
            self.hosts = host_clocks((process.host, process.log) for process in self.processes)
        for process in self.processes:
            shift = self.hosts[process.host].shift_ns
            if process.log.shift != shift:
                process.move_clock(shift)
            name = str(process.log.process.get("name") or f"pid {process.pid}")
            if not name.startswith(f"{process.host}: "):
                process.log.process["name"] = f"{process.host}: {name}"


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
    trace = Trace(folder, _about(folder / "run.json"))
    trace.refresh()
    return trace


def _folders(run: Path) -> list[Path]:
    """Of the processes that wrote anything."""
    parts = [run, *(part for part in run.glob(f"{HOST}*") if is_folder(part))] if run.is_dir() else []
    inside = (folder for part in parts for folder in part.glob("p*-*"))
    return [p for p in inside if _is_process(p.name) and is_folder(p) and any(p.iterdir())]


def _number_workers(processes: list[ProcessTrace]) -> None:
    """Ray's workers know their class, not how many of it there are: `Sampler#1`, `Sampler#2`, in order of their start."""
    by_name: dict[str, list[ProcessTrace]] = {}
    for process in processes:
        if any(on.startswith(("actor:", "task:")) for on, _ in process.log.feeds):
            by_name.setdefault(str(process.log.process.get("name")), []).append(process)
    for name, members in list(by_name.items()):
        known = sum(other.startswith(f"{name}#") for other in by_name)
        for number, process in enumerate(members, known + 1):
            if "#" not in name and known + len(members) > 1:
                process.log.process["name"] = f"{name}#{number}"


def _is_process(name: str) -> bool:
    pid, _, start = name[1:].partition("-")
    return pid.isdecimal() and pid.isascii() and bool(start)


def _about(path: Path) -> dict[str, Any]:
    about = read_object(path)
    if isinstance(about.get("format"), int) and about["format"] > FORMAT_VERSION:
        raise CutawayError(
            f"{path.parent} was written by a newer Cutaway (format {about['format']}); update to read it."
        )
    return about


def _bytes(sources: Any) -> NDArray[np.uint8]:
    return np.array(sources, fmt.SOURCE_DTYPE).reshape(-1).view(np.uint8)


def _stop(log: Log) -> Stop | None:
    """A loss without a number is the recorder's last word."""
    for entry in log.losses:
        if entry.get("n") == 0:
            return Stop(
                _count(entry.get("t")), str(entry.get("what") or "").removeprefix("recording stopped: ")
            )
    return None


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0
