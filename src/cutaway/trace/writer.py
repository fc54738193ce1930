"""Writes a run from columns: how recordings of other tools, and tests, become a `NAME.cutaway/` folder.

The recorder inside a traced process does not use this; it writes the same format from C++.
"""

from __future__ import annotations

import json
import os
import platform
import time as clock
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.format import Structured
from cutaway.vocabulary import BLOCK_MAGIC, DEVICE_CHUNK, FORMAT_VERSION, Clock, Kind, Stream

_BLOCK_RECORDS = 1 << 16


class RunWriter:
    """A run folder being written. Close it, or use it in a `with` statement.

    >>> import tempfile, cutaway
    >>> folder = tempfile.mkdtemp() + "/demo.cutaway"
    >>> with RunWriter(folder, command="train.py", source="example") as run:
    ...     process = run.process(pid=1, name="main")
    ...     thread = process.thread(tid=1, name="MainThread")
    ...     thread.spans([0, 10], [100, 40], ops=[process.name("learn"), process.name("inference")])
    ...     process.exit(code=0, t=100)
    >>> cutaway.open(folder).processes()["name"].tolist()
    ['main']
    """

    def __init__(
        self, path: str | os.PathLike[str], *, command: str = "", source: str = "", **about: Any
    ) -> None:
        self.path = Path(path)
        self.path.mkdir(mode=0o700, parents=True)
        self._processes: list[ProcessWriter] = []
        described = {
            "format": FORMAT_VERSION,
            "command": command,
            "created": clock.time_ns(),
            "host": platform.node(),
            "cpus": os.cpu_count(),
            "source": source,
            "options": {},
            **about,
        }
        (self.path / "run.json").write_text(json.dumps(described, indent=1) + "\n")

    def process(
        self, pid: int, *, ppid: int = 0, name: str = "", role: str = "", start_ns: int = 0, **about: Any
    ) -> ProcessWriter:
        """Makes the folder of a process; `about` goes into its first log line (`versions`, `host`, …)."""
        folder = self.path / f"p{pid}-{start_ns}"
        folder.mkdir(mode=0o700)
        process = ProcessWriter(folder)
        fields = {"pid": pid, "ppid": ppid, "name": name, "role": role, "t": start_ns}
        process.log("process", {"clock": "monotonic", **fields, **about})
        self._processes.append(process)
        return process

    def close(self) -> None:
        """Writes what is still buffered and closes all files."""
        for process in self._processes:
            process.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class ProcessWriter:
    """One process of a run being written; times are nanoseconds of one clock for the whole run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = (folder / "log.jsonl").open("ab")
        self._events = (folder / "events.bin").open("ab")
        self._device = (folder / "device.bin").open("ab")
        self._names: dict[str, int] = {}
        self._calls: dict[tuple[Any, ...], int] = {}
        self._threads: list[ThreadWriter] = []
        self._device_held: dict[int, list[Structured]] = {Stream.API: [], Stream.DEVICE: []}

    def log(self, k: str, fields: Mapping[str, Any]) -> None:
        text = json.dumps({"k": k, **fields}, separators=(",", ":"), ensure_ascii=True).encode()
        self._log.write(b"%08x %s\n" % (_sweep.crc32c(text), text))

    def name(self, text: str) -> int:
        """The id of an operation, phase, kernel or API name."""
        known = self._names.get(text)
        if known is None:
            known = self._names[text] = len(self._names) + 1
            self.log("name", {"id": known, "s": text})
        return known

    def call(
        self, *, layer: str, fn: str, file: str = "", line: int = 0, func: str = "", on: str | None = None
    ) -> int:
        """The id of a call: function, layer, call site and, for waits, what is waited for."""
        key = (layer, fn, file, line, func, on)
        known = self._calls.get(key)
        if known is None:
            known = self._calls[key] = len(self._calls) + 1
            fields = {"id": known, "layer": layer, "fn": fn, "file": file, "line": line, "func": func}
            self.log("call", fields if on is None else {**fields, "on": on})
        return known

    def thread(self, tid: int, name: str = "", t: int = 0) -> ThreadWriter:
        """A thread of this process; API records with this tid belong to it."""
        thread = ThreadWriter(self, len(self._threads))
        self._threads.append(thread)
        self.log("thread", {"id": thread.id, "tid": tid, "name": name, "t": t})
        return thread

    def api(self, records: Structured) -> None:
        """Appends accelerator API calls (`format.API_DTYPE`), in any order."""
        self._hold(Stream.API, np.asarray(records, fmt.API_DTYPE))

    def device(self, records: Structured) -> None:
        """Appends device work (`format.DEVICE_DTYPE`), in any order."""
        self._hold(Stream.DEVICE, np.asarray(records, fmt.DEVICE_DTYPE))

    def exit(self, *, t: int, code: int | None = None, signal: int | None = None) -> None:
        self.log("exit", {"t": t, **({"signal": signal} if signal is not None else {"code": code})})

    def flush(self) -> None:
        """Brings what was written to the disk's files; a reader may look at them then."""
        for file in (self._log, self._events, self._device):
            file.flush()

    def close(self) -> None:
        """Writes what the threads still hold and closes the files."""
        for thread in self._threads:
            thread.flush()
        for stream, held in self._device_held.items():
            if sum(map(len, held)):
                self._chunk(stream, np.concatenate(held))
                held.clear()
        for file in (self._log, self._events, self._device):
            file.close()

    def _hold(self, stream: int, records: Structured) -> None:
        """Keeps records until a chunk of device.bin is full."""
        held = self._device_held[stream]
        held.append(records)
        room = (DEVICE_CHUNK - fmt.BLOCK_HEAD_DTYPE.itemsize) // records.dtype.itemsize
        if sum(map(len, held)) >= room:
            whole = np.concatenate(held)
            full = len(whole) // room * room
            self._device_held[stream] = [whole[full:]]
            for at in range(0, full, room):
                self._chunk(stream, whole[at : at + room])

    def _chunk(self, stream: int, part: Structured) -> None:
        payload = part.tobytes()
        head = _head(stream, part, payload, int(part["start"].min()), int(part["end"].max()))
        self._device.write((head + payload).ljust(DEVICE_CHUNK, b"\0"))

    def _append(self, thread: int, seq: int, records: Structured) -> None:
        payload = _sweep.pack(records.view(np.uint8)).tobytes()
        ends = records["time"] + np.where(fmt.kinds(records) == Kind.CALL, records["value"], 0)
        first, last = int(records["time"][0]), int(ends.max())
        self._events.write(_head(Stream.THREAD, records, payload, first, last, thread, seq) + payload)


class ThreadWriter:
    """The events of one thread, in order of time."""

    def __init__(self, process: ProcessWriter, id: int) -> None:
        self.id = id
        self._process = process
        self._seq = 0
        self._held: list[Structured] = []
        self._count = 0

    def write(self, time: ArrayLike, value: ArrayLike, kind: ArrayLike, id: ArrayLike) -> None:
        """Appends records (see `native/trace/format.h` for the kinds); times must not go back."""
        self.append(fmt.records(time, value, kind, id))

    def append(self, records: Structured) -> None:
        """Appends records that are already in the form of `format.RECORD_DTYPE`."""
        self._held.append(records)
        self._count += len(records)
        if self._count >= _BLOCK_RECORDS:
            self.flush()

    def spans(self, start: ArrayLike, end: ArrayLike, *, ops: ArrayLike) -> None:
        """Appends operations given as intervals, in any order; see `span_records`."""
        self.append(span_records(start, end, Kind.OP_ENTER, ops))

    def flush(self) -> None:
        """Writes what is held as blocks."""
        held = np.concatenate(self._held) if self._held else np.zeros(0, fmt.RECORD_DTYPE)
        self._held, self._count = [], 0
        for at in range(0, len(held), _BLOCK_RECORDS):
            self._process._append(self.id, self._seq, held[at : at + _BLOCK_RECORDS])
            self._seq += 1


def span_records(start: ArrayLike, end: ArrayLike, kind: ArrayLike, id: ArrayLike) -> Structured:
    """Intervals of one thread, in any order, as the ordered records the format asks for.

    `kind` is `Kind.OP_ENTER` or `Kind.ENTER` for each interval. Intervals may overlap in part; for the order see `nested_order`.

    >>> span_records([5, 5], [9, 30], Kind.ENTER, [1, 2])["time"].tolist()
    [5, 5, 9, 30]
    """
    first, last, kind, id = np.broadcast_arrays(start, end, kind, id)
    begin, stop = first.astype(np.int64), last.astype(np.int64)
    time, kinds, ids = map(np.concatenate, ((begin, stop), (kind, kind + 1), (id, id)))
    return fmt.records(time, 0, kinds, ids)[fmt.nested_order(begin, stop)]


def _head(
    stream: int, records: Structured, payload: bytes, first: int, last: int, id: int = 0, seq: int = 0
) -> bytes:
    head = np.zeros(1, fmt.BLOCK_HEAD_DTYPE)
    head["magic"], head["version"] = BLOCK_MAGIC, FORMAT_VERSION
    head["stream"], head["clock"] = stream, Clock.MONOTONIC
    head["id"], head["seq"], head["count"], head["bytes"] = id, seq, len(records), len(payload)
    head["first"], head["last"] = first, last
    head["payload_crc"] = _sweep.crc32c(payload)
    head["head_crc"] = _sweep.crc32c(head.tobytes()[:-4])
    return head.tobytes()
