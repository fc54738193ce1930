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
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.trace.format import Structured
from cutaway.vocabulary import (
    BLOCK_MAGIC,
    DEVICE_CHUNK,
    FORMAT_VERSION,
    Clock,
    Kind,
    Stream,
)

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
        self,
        path: str | os.PathLike[str],
        *,
        command: str = "",
        source: str = "",
        **about: Any,
    ) -> None:
        self.path = Path(path)
        self.path.mkdir(mode=0o700, parents=True)
        self._processes: list[ProcessWriter] = []
        made = {
            "format": FORMAT_VERSION,
            "command": command,
            "created": clock.time_ns(),
        }
        where: dict[str, Any] = {
            "host": platform.node(),
            "cpus": os.cpu_count(),
            "source": source,
            "options": {},
        }
        (self.path / "run.json").write_text(
            json.dumps({**made, **where, **about}, indent=1) + "\n"
        )

    def process(
        self,
        pid: int,
        *,
        ppid: int = 0,
        name: str = "",
        role: str = "",
        start_ns: int = 0,
        **about: Any,
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


class _BlockWriter:
    """Records of one stream, in one of the files of a process: held until a block is full."""

    def __init__(self, file: BinaryIO, stream: int, id: int = 0) -> None:
        self.id = id
        self._file = file
        self._stream = stream
        self._seq = 0
        self._held: list[Structured] = []
        self._count = 0

    def append(self, records: Structured) -> None:
        """Appends records of the dtype of this stream."""
        self._held.append(records)
        self._count += len(records)
        room = (DEVICE_CHUNK - fmt.BLOCK_HEAD_DTYPE.itemsize) // records.dtype.itemsize
        if self._stream == Stream.THREAD:
            room = _BLOCK_RECORDS
        if self._count >= room:
            whole = np.concatenate(self._held)
            full = len(whole) // room * room
            for at in range(0, full, room):
                self._write(whole[at : at + room])
            self._held = [whole[full:]]
            self._count = len(whole) - full

    def flush(self) -> None:
        """Writes what is held as a block."""
        if self._count:
            self._write(np.concatenate(self._held))
        self._held = []
        self._count = 0

    def _write(self, records: Structured) -> None:
        head = np.zeros(1, fmt.BLOCK_HEAD_DTYPE)
        if self._stream == Stream.THREAD:
            payload = _sweep.pack(records.view(np.uint8)).tobytes()
            ends = records["time"] + np.where(
                fmt.kinds(records) == Kind.CALL, records["value"], 0
            )
            head["first"], head["last"] = records["time"][0], ends.max()
        else:
            payload = records.tobytes()
            head["first"], head["last"] = records["start"].min(), records["end"].max()
        head["magic"], head["version"] = BLOCK_MAGIC, FORMAT_VERSION
        head["stream"], head["clock"] = self._stream, Clock.MONOTONIC
        head["id"], head["seq"], head["count"], head["bytes"] = (
            self.id,
            self._seq,
            len(records),
            len(payload),
        )
        head["payload_crc"] = _sweep.crc32c(payload)
        head["head_crc"] = _sweep.crc32c(head.tobytes()[:-4])
        whole = head.tobytes() + payload
        self._file.write(
            whole if self._stream == Stream.THREAD else whole.ljust(DEVICE_CHUNK, b"\0")
        )
        self._seq += self._stream == Stream.THREAD


class ThreadWriter(_BlockWriter):
    """The events of one thread, in order of time."""

    def write(
        self, time: ArrayLike, value: ArrayLike, kind: ArrayLike, id: ArrayLike
    ) -> None:
        """Appends records (see `native/trace/format.h` for the kinds); times must not go back."""
        self.append(fmt.records(time, value, kind, id))

    def spans(self, start: ArrayLike, end: ArrayLike, *, ops: ArrayLike) -> None:
        """Appends operations given as intervals, in any order; see `span_records`."""
        self.append(span_records(start, end, Kind.OP_ENTER, ops))


class ProcessWriter:
    """One process of a run being written; times are nanoseconds of one clock for the whole run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log, self._events, self._device = (
            (folder / name).open("ab")
            for name in ("log.jsonl", "events.bin", "device.bin")
        )
        self._names: dict[str, int] = {}
        self._calls: dict[tuple[Any, ...], int] = {}
        self._threads: list[ThreadWriter] = []
        self._api, self._work = (
            _BlockWriter(self._device, s) for s in (Stream.API, Stream.DEVICE)
        )

    def log(self, k: str, fields: Mapping[str, Any]) -> None:
        text = json.dumps(
            {"k": k, **fields}, separators=(",", ":"), ensure_ascii=True
        ).encode()
        self._log.write(b"%08x %s\n" % (_sweep.crc32c(text), text))

    def name(self, text: str) -> int:
        """The id of an operation, phase, kernel or API name."""
        if text not in self._names:
            self._names[text] = len(self._names) + 1
            self.log("name", {"id": self._names[text], "s": text})
        return self._names[text]

    def call(
        self,
        *,
        layer: str,
        fn: str,
        file: str = "",
        line: int = 0,
        func: str = "",
        on: str | None = None,
    ) -> int:
        """The id of a call: function, layer, call site and, for waits, what is waited for."""
        key = (layer, fn, file, line, func, on)
        if key not in self._calls:
            self._calls[key] = len(self._calls) + 1
            fields = {
                "layer": layer,
                "fn": fn,
                "file": file,
                "line": line,
                "func": func,
            }
            self.log(
                "call",
                {
                    "id": self._calls[key],
                    **fields,
                    **({} if on is None else {"on": on}),
                },
            )
        return self._calls[key]

    def thread(self, tid: int, name: str = "", t: int = 0) -> ThreadWriter:
        """A thread of this process; API records with this tid belong to it."""
        thread = ThreadWriter(self._events, Stream.THREAD, len(self._threads))
        self._threads.append(thread)
        self.log("thread", {"id": thread.id, "tid": tid, "name": name, "t": t})
        return thread

    def api(self, records: Structured) -> None:
        """Appends accelerator API calls (`format.API_DTYPE`), in any order."""
        self._api.append(np.asarray(records, fmt.API_DTYPE))

    def device(self, records: Structured) -> None:
        """Appends device work (`format.DEVICE_DTYPE`), in any order."""
        self._work.append(np.asarray(records, fmt.DEVICE_DTYPE))

    def exit(
        self, *, t: int, code: int | None = None, signal: int | None = None
    ) -> None:
        self.log(
            "exit",
            {"t": t, **({"signal": signal} if signal is not None else {"code": code})},
        )

    def flush(self) -> None:
        """Brings what was written to the disk's files; a reader may look at them then."""
        for file in (self._log, self._events, self._device):
            file.flush()

    def close(self) -> None:
        """Writes what is still held and closes the files."""
        for stream in (*self._threads, self._api, self._work):
            stream.flush()
        for file in (self._log, self._events, self._device):
            file.close()


def span_records(
    start: ArrayLike, end: ArrayLike, kind: ArrayLike, id: ArrayLike
) -> Structured:
    """Intervals of one thread, in any order, as the ordered records the format asks for.

    `kind` is `Kind.OP_ENTER` or `Kind.ENTER` for each interval. Intervals may overlap in part; for the order see `nested_order`.

    >>> span_records([5, 5], [9, 30], Kind.ENTER, [1, 2])["time"].tolist()
    [5, 5, 9, 30]
    """
    first, last, kind, id = np.broadcast_arrays(start, end, kind, id)
    begin = first.astype(np.int64)
    stop = last.astype(np.int64)
    time, kinds, ids = map(np.concatenate, ((begin, stop), (kind, kind + 1), (id, id)))
    return fmt.records(time, 0, kinds, ids)[fmt.nested_order(begin, stop)]
