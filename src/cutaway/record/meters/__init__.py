"""Sampled quantities of the machine's accelerators and power supply: GPU utilisation, memory, clocks, power, energy.

One process of a run reads them, whichever holds the lock in the run's folder; when it ends another one takes over. What
cannot be read is left out of the samples, and the reason is a note. (CPU time and memory are sampled by the recorder.)
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutaway.record.devices import library
from cutaway.record.meters import nvml, rapl

_PERIOD_SECONDS = 0.5
_stopping = threading.Event()
_thread: threading.Thread | None = None
_lock: int | None = None


def start(folder: str) -> None:
    """Begin to sample in a thread of its own."""
    global _thread
    if _thread is not None:
        return
    _stopping.clear()
    _thread = threading.Thread(target=_run, args=(Path(folder),), name="cutaway-meters", daemon=True)
    _thread.start()


def stop() -> None:
    """Take the last sample and end."""
    global _thread
    _stopping.set()
    if _thread is not None:
        _thread.join()
        _thread = None


@dataclass
class Reader:
    """Everything that can be read here; remembers the last reading to turn energy into power."""

    gpus: nvml.Nvml | None
    domains: list[rapl.Domain]
    _last: tuple[int, int] | None = None

    def sample(self) -> dict[str, Any]:
        """One log "sample": `gpu`, `rapl_uj`, and `power` in watts. What cannot be read is left out."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        entry: dict[str, Any] = {"k": "sample", "t": now}
        power: dict[str, float] = {}
        if self.gpus is not None:
            entry["gpu"] = self.gpus.read()
            told = [gpu["power_mw"] for gpu in entry["gpu"] if "power_mw" in gpu]
            power |= {"gpu": sum(told) / 1000} if told else {}
        if self.domains:
            entry["rapl_uj"] = {d.name: energy for d in self.domains if (energy := d.read()) is not None}
            packages = [value for name, value in entry["rapl_uj"].items() if name.startswith("package")]
            if packages and self._last is not None and now > self._last[0]:
                power["cpu"] = round((sum(packages) - self._last[1]) * 1000 / (now - self._last[0]), 3)
            self._last = (now, sum(packages)) if packages else None
        if power:
            entry["power"] = power
        return entry


def _run(folder: Path) -> None:
    global _lock
    _lock = _wait_for_lock(folder / "meters.lock")
    if _lock is None:
        return
    gpus, reason = nvml.connect()
    domains, reason_power = rapl.domains()
    for text in (reason, reason_power):
        if text:
            library.log({"k": "note", "text": text})
    reader = Reader(gpus, domains)
    while gpus is not None or domains:
        library.log(reader.sample())
        if _stopping.wait(_PERIOD_SECONDS):
            library.log(reader.sample())
            break
    os.close(_lock)
    _lock = None


def _in_child() -> None:
    """A forked child has the lock's file but not the thread: it must not keep others from taking over."""
    global _thread, _lock
    if _lock is not None:
        os.close(_lock)
    _thread = _lock = None


os.register_at_fork(after_in_child=_in_child)


def _wait_for_lock(path: Path) -> int | None:
    try:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except OSError:
            if _stopping.wait(1.0):
                os.close(lock)
                return None
