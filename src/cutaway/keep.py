"""Keeps a run small while it is recorded: the last stretch in full, everything before it as exact totals.

    python -m cutaway.keep RUN SECONDS    goes on until the last process of the run has ended

A helper process, beside the program and at the lowest priority. For each process of the run it sweeps what is older than the stretch,
writes the whole state of the sweep to past.bin, and only then gives the space of the packed events back. A kill at any moment loses
nothing and counts nothing twice: what past.bin covers is never read again, and nothing else is given back.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cutaway import _sweep
from cutaway.analysis import progress
from cutaway.analysis.devices import launchers
from cutaway.analysis.stages import find_beginning
from cutaway.analysis.sweep import NO_ID, ordered_threads
from cutaway.trace import format as fmt
from cutaway.trace.past import NOTHING, DevicePast, Past, write_past
from cutaway.trace.pulses import open_calls
from cutaway.trace.reader import ProcessTrace, Trace, read_run
from cutaway.trace.running import is_alive, locked
from cutaway.vocabulary import DEVICE_CHUNK, Clock, Kind

_KEEP_SIZE_AND_PUNCH = 3  # flags of fallocate(2)
_PATIENCE_S = 10.0
_NO_RECORDS = np.zeros(0, np.uint8)


class Keeper:
    """The past of the processes of one run."""

    def __init__(
        self, trace: Trace, keep_ns: int, steady_ns: int = 0, origin: int | None = None
    ) -> None:
        """`steady_ns` and `origin` (of the stretches of time) if they are known already."""
        self.trace = trace
        self.keep_ns = keep_ns
        pasts = [process.past for process in trace.processes if process.past]
        self.steady_ns = steady_ns or next(
            (past.steady_ns for past in pasts if past.steady_ns), 0
        )
        self.edge_ns = next((past.edge_ns for past in pasts if past.edge_ns), 0)
        self.origin = origin
        self.first_iterations: dict[Path, int] = {}
        self._pasts: dict[Path, _sweep.Past] = {}

    def look(self, now_ns: int, dead_too: bool = False) -> None:
        """Takes in what has left the stretch. What a process that has ended left stays as it is, unless `dead_too`."""
        self.trace.refresh()
        for process in self.trace.processes:
            forget_read(process)
        until = now_ns - self.keep_ns
        due = [
            process
            for process in self.trace.processes
            if self._is_due(process, until, dead_too)
        ]
        if due:
            self.find_beginning()
        for process in due:
            self.take(process, until)

    def _is_due(self, process: ProcessTrace, until: int, dead_too: bool) -> bool:
        anchors = process.log.anchors
        if process.past:
            since = process.past.until_ns
        elif anchors:
            since = anchors[0].mono
        else:
            since = until
        return until >= since + self.keep_ns // 2 and (
            dead_too or is_alive(process.folder)
        )

    def find_beginning(self) -> None:
        """Where start-up ends: at the second iteration, or with the first work if none comes. Until that is known the sweep
        keeps what lies between the two apart."""
        if not self.steady_ns:
            begins = find_beginning(self.trace)
            self.steady_ns = begins.second_iteration
            self.first_iterations = begins.first_iterations
            folded = max(
                (
                    process.past.until_ns
                    for process in self.trace.processes
                    if process.past
                ),
                default=0,
            )
            if not 0 < self.edge_ns < folded:
                self.edge_ns = begins.first_work

    def take(self, process: ProcessTrace, until: int) -> None:
        """Adds what ended before `until` to the totals of a process, and gives its space back."""
        before = process.past
        past = self.fold(process, until)
        if past is None:
            return
        process.past = past
        write_past(process.folder, past)
        if before is None or past.offset > before.offset:
            give_back(process.folder / "events.bin", 0, past.offset)
        for offset in past.devices.gone:
            give_back(
                process.folder / "device.bin",
                offset // DEVICE_CHUNK * DEVICE_CHUNK,
                DEVICE_CHUNK,
            )

    def fold(self, process: ProcessTrace, until: int) -> Past | None:
        """The past of a process with what ended before `until`; None if that is hardly more than before."""
        anchors = process.log.anchors
        until = min(until, anchors[-1].mono if anchors else 0)
        past = self._past(process)
        threads = []
        devices = process.look_at_devices()
        order = ordered_threads(process, devices.threads.tolist())
        for id in order:
            if id < 0:
                threads.append((NO_ID, NOTHING, NOTHING))
                continue
            sources = process.written.get(id, np.zeros(0, fmt.SOURCE_DTYPE))
            calls, known_until = _middle(process, id, until, past.silent_since(id))
            until = min(until, known_until)
            threads.append((id, np.ascontiguousarray(sources).view(np.uint8), calls))
        before = process.past
        if process.samples is None:
            samples = _NO_RECORDS
        else:
            samples = process.samples.view(np.uint8)
        if until <= (before.until_ns if before else 0):
            return None
        past.lead(self.edge_ns, self.steady_ns)
        past.take(
            process.native(),
            threads,
            samples,
            devices,
            _launchers(process, devices, order),
            until,
        )
        return self._past_with(process, past, order, devices, until)

    def _past(self, process: ProcessTrace) -> _sweep.Past:
        if process.folder not in self._pasts:
            if process.past:
                state = process.past.state
            else:
                state = NOTHING
            self._pasts[process.folder] = _sweep.Past(
                process.native(), self._bins(), state
            )
        return self._pasts[process.folder]

    def _bins(self) -> tuple[int, int, int]:
        found = progress.bins(self.trace)
        return (
            found.start if self.origin is None else self.origin,
            found.width,
            found.count,
        )

    def _past_with(
        self,
        process: ProcessTrace,
        past: _sweep.Past,
        threads: list[int],
        devices: _sweep.Devices,
        until: int,
    ) -> Past:
        positions = dict(
            zip([*threads, process.log.sample_stream], past.positions(), strict=True)
        )
        if process.past:
            offset = process.past.offset
        else:
            offset = 0
        for block in process.blocks:
            seq, taken = positions.get(int(block["thread"]), (0, 0))
            if (int(block["seq"]), int(block["count"]) - 1) >= (seq, taken):
                break
            offset = int(block["offset"] + block["bytes"])
        state = past.save()
        read, left, done = devices.taken(past.reached, *past.begun)
        pairs = tuple((block, count) for block, count in left.reshape(-1, 2).tolist())
        of_devices = DevicePast(
            past.reached, pairs, (*process.device_gone, *done.tolist()), read
        )
        return Past(
            until,
            self.steady_ns,
            self.edge_ns,
            offset,
            tuple(threads),
            self._bins(),
            state,
            of_devices,
            self.first_iterations.get(process.folder, 0),
            tuple(id for id in threads if id >= 0 and past.calibrates(id)),
        )


def _launchers(
    process: ProcessTrace, devices: _sweep.Devices, order: list[int]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Who made API calls, and who launched on each stream, as positions in `order`."""
    infos = process.log.threads
    tids = [-1 - id if id < 0 else infos[id].tid if id in infos else 0 for id in order]
    by_tid = {tid: at for at, tid in enumerate(tids)} | {
        tids[at]: at for at, id in enumerate(order) if id >= 0
    }
    own = [at for at, id in enumerate(order) if id >= 0]
    return launchers(devices, [by_tid[tid] for tid in devices.threads.tolist()], own)


def forget_read(process: ProcessTrace) -> None:
    """Of what the log says only what is still needed stays in memory: the last sample, and the clock of what is not read yet."""
    del process.log.samples[:-1]
    if process.past:
        done = process.past.until_ns - _PATIENCE_S * 1e9
    else:
        done = 0
    process.log.anchors[1:] = [
        anchor for anchor in process.log.anchors[1:] if anchor.mono >= done
    ]


def _middle(
    process: ProcessTrace, thread: int, until: int, silent: int
) -> tuple[np.ndarray, int]:
    """Calls that a thread is in and has not written, as records; and since when anything that it writes later can have begun.
    `silent`: when the last event ended that the past holds, if the thread has not."""
    kind, last = process.last_record(thread) or (
        Kind.END if silent > until else Kind.CALL,
        silent,
    )
    if kind == Kind.END or last >= until:
        return _NO_RECORDS, until
    pulse = process.pulse(thread)
    if pulse:
        calls = open_calls(process.folder / "pulse.bin", pulse)
    else:
        calls = None
    if pulse is None or calls is None:
        return _NO_RECORDS, last
    return calls.view(np.uint8), min(
        until, int(process.to_ns([pulse.until], Clock.TICKS)[0])
    )


def give_back(path: Path, start: int, length: int) -> bool:
    """Gives the space of a part of a file back; False where the file system cannot."""
    libc = ctypes.CDLL(None, use_errno=True)
    with path.open("r+b") as file:
        arguments = (
            ctypes.c_int(_KEEP_SIZE_AND_PUNCH),
            ctypes.c_int64(start),
            ctypes.c_int64(length),
        )
        return bool(libc.fallocate(file.fileno(), *arguments) == 0)


def follow(run: Path, seconds: float) -> None:
    """Keeps a run small until all its processes have ended."""
    keeper = Keeper(read_run(run), int(seconds * 1e9))
    quiet = 0.0
    every = min(10.0, max(0.2, seconds / 6))
    while quiet < _PATIENCE_S:
        time.sleep(every)
        keeper.look(time.monotonic_ns())
        alive = any(is_alive(process.folder) for process in keeper.trace.processes)
        quiet = 0.0 if alive else quiet + every


def main(run: str, seconds: str) -> None:
    """Detaches from the process that started it, and keeps the run small unless another helper does."""
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.nice(19)
    with locked(Path(run), "keep.lock") as only:
        if only:
            follow(Path(run), float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
