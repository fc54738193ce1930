"""Sampled quantities of the machine's accelerators and power supply: GPU utilisation, memory, clocks, power, energy.

One process of a run reads them, whichever holds the lock in the run's folder; when it ends another one takes over. Values
that cannot be read are left out of the samples, and a note gives the reason. (CPU time and memory are sampled by the recorder.)
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutaway import _recorder
from cutaway.record.devices.cupti import driver_present
from cutaway.record.own_thread import OwnThread

_PERIOD_SECONDS = 0.5
_NO_GPU = "GPU power and utilisation are unavailable"
_NO_ENERGY = "CPU energy is unavailable"

_stopping = threading.Event()
_thread: threading.Thread | None = None
_lock: int | None = None


def start(folder: str) -> None:
    """Begin to sample in a thread of its own."""
    global _thread
    if _thread is None:
        _stopping.clear()
        _thread = OwnThread(
            target=_run, args=(folder,), name="cutaway-meters", daemon=True
        )
        _thread.start()


def stop() -> None:
    """Take the last sample and end."""
    global _thread
    _stopping.set()
    if _thread is not None:
        _thread.join()
        _thread = None


def _in_child() -> None:
    """A forked child has the lock's file but not the thread, so it must let others take over."""
    global _thread, _lock
    if _lock is not None:
        os.close(_lock)
    _thread = _lock = None


os.register_at_fork(after_in_child=_in_child)


def _run(folder: str) -> None:
    global _lock
    _lock = _wait_for_lock(os.path.join(folder, "meters.lock"))
    if _lock is None:
        return
    gpus, no_gpus = connect_nvml()
    domains, no_energy = rapl_domains()
    for text in filter(None, (no_gpus, no_energy)):
        _recorder.note(text)
    reader = Reader(gpus, domains)
    while gpus is not None or domains:
        _recorder.log("sample", json.dumps(reader.sample()))
        if _stopping.wait(_PERIOD_SECONDS):
            _recorder.log("sample", json.dumps(reader.sample()))
            break
    os.close(_lock)
    _lock = None


def _wait_for_lock(path: str) -> int | None:
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


@dataclass
class Reader:
    """Everything that can be read here; remembers the last reading to turn energy into power."""

    gpus: Nvml | None
    domains: list[Domain]
    _last: tuple[int, int] | None = None

    def sample(self) -> dict[str, Any]:
        """One log "sample": `gpu`, `rapl_uj`, and `power` in watts. What cannot be read is left out."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        entry: dict[str, Any] = {"t": now}
        power: dict[str, float] = {}
        if self.gpus is not None:
            entry["gpu"] = self.gpus.read()
            told = [gpu["power_mw"] for gpu in entry["gpu"] if "power_mw" in gpu]
            power |= {"gpu": sum(told) / 1000} if told else {}
        if self.domains:
            entry["rapl_uj"] = {
                d.name: energy for d in self.domains if (energy := d.read()) is not None
            }
            packages = [
                value
                for name, value in entry["rapl_uj"].items()
                if name.startswith("package")
            ]
            if packages and self._last is not None and now > self._last[0]:
                power["cpu"] = round(
                    (sum(packages) - self._last[1]) * 1000 / (now - self._last[0]), 3
                )
            if packages:
                self._last = (now, sum(packages))
            else:
                self._last = None
        return entry | ({"power": power} if power else {})


def connect_nvml(present: bool | None = None) -> tuple[Nvml | None, str]:
    """The GPUs, or a sentence that says why they cannot be read. `present`: whether a driver is installed, if known.

    As root, initialising NVIDIA's library may create device nodes: the driver is looked for first, and only then asked.
    """
    if not (driver_present() if present is None else present):
        return None, f"{_NO_GPU}: there is no NVIDIA driver here"
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None, f"{_NO_GPU}: `pip install cutaway[nvidia]` adds the reader"
    try:
        pynvml.nvmlInit()
        return Nvml(pynvml), ""
    except pynvml.NVMLError as error:
        return None, f"{_NO_GPU}: the NVIDIA driver does not answer ({error})"


class Nvml:
    """All GPUs of this machine. Quantities that a GPU does not report are left out."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._handles = [
            api.nvmlDeviceGetHandleByIndex(i) for i in range(api.nvmlDeviceGetCount())
        ]
        self.close = api.nvmlShutdown

    def names(self) -> list[str]:
        """What the GPUs are called."""
        return [_text(self._api.nvmlDeviceGetName(handle)) for handle in self._handles]

    def driver(self) -> str:
        """The version of the driver."""
        return _text(self._api.nvmlSystemGetDriverVersion())

    def read(self) -> list[dict[str, int]]:
        """One dict a GPU: percent, bytes, MHz, milliwatts, millijoules since the driver was loaded, our process's bytes."""
        return [
            {"id": i, **self._read(handle)} for i, handle in enumerate(self._handles)
        ]

    def _read(self, handle: Any) -> dict[str, int]:
        api = self._api

        def own_memory() -> int:
            running = api.nvmlDeviceGetComputeRunningProcesses(handle)
            return sum(p.usedGpuMemory or 0 for p in running if p.pid == os.getpid())

        questions: dict[str, Callable[[], Any]] = {
            "utilisation": lambda: api.nvmlDeviceGetUtilizationRates(handle).gpu,
            "memory": lambda: api.nvmlDeviceGetMemoryInfo(handle).used,
            "sm_mhz": lambda: api.nvmlDeviceGetClockInfo(handle, api.NVML_CLOCK_SM),
            "power_mw": lambda: api.nvmlDeviceGetPowerUsage(handle),
            "energy_mj": lambda: api.nvmlDeviceGetTotalEnergyConsumption(handle),
            "own_memory": own_memory,
        }
        answers: dict[str, int] = {}
        for name, ask in questions.items():
            try:
                answers[name] = int(ask())
            except api.NVMLError:
                continue
        return answers


def _text(name: str | bytes) -> str:
    if isinstance(name, bytes):
        return name.decode()
    return str(name)


@dataclass
class Domain:
    """One energy counter of a processor package or of memory. It wraps around at `range_uj`; `read` counts on."""

    name: str
    path: Path
    range_uj: int
    _last: int = field(default=-1, repr=False)
    _added: int = field(default=0, repr=False)

    def read(self) -> int | None:
        """Microjoules since some time in the past; None if it cannot be read any more."""
        try:
            now = int((self.path / "energy_uj").read_text())
        except (OSError, ValueError):
            return None
        if now < self._last:
            self._added += self.range_uj
        self._last = now
        return self._added + now


def rapl_domains(root: Path = Path("/sys/class/powercap")) -> tuple[list[Domain], str]:
    """The RAPL counters that can be read, as the kernel shows them, and one sentence if none can."""
    folders = sorted(root.glob("*rapl*:*"))
    if not folders:
        return (
            [],
            f"{_NO_ENERGY}: this machine shows no RAPL counters (virtual machines seldom do)",
        )
    readable: list[Domain] = []
    for folder in folders:
        try:
            name = f"{(folder / 'name').read_text().strip()}:{folder.name.partition(':')[2]}"
            domain = Domain(
                name, folder, int((folder / "max_energy_range_uj").read_text())
            )
        except (OSError, ValueError):
            continue
        if domain.read() is not None:
            readable.append(domain)
    if readable:
        return readable, ""
    return (
        [],
        f"{_NO_ENERGY}: RAPL counters are readable by root only; run as root or chmod energy_uj",
    )
