"""NVIDIA's management library: utilisation, memory, clocks, power, energy counter; for our process where it tells.

As root, initialising the library may create device nodes: the driver is looked for first, and only then asked.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

from cutaway.record.devices.cupti import driver_present


def connect(present: bool | None = None) -> tuple[Nvml | None, str]:
    """The GPUs, or one sentence why they cannot be read. `present` is whether a driver is there, if that is known."""
    if not (driver_present() if present is None else present):
        return None, "GPU power and utilisation are unavailable: there is no NVIDIA driver here"
    try:
        pynvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return (
            None,
            "GPU power and utilisation are unavailable: `pip install cutaway[nvidia]` adds the reader",
        )
    try:
        pynvml.nvmlInit()
        return Nvml(pynvml), ""
    except pynvml.NVMLError as error:
        return None, f"GPU power and utilisation are unavailable: the NVIDIA driver does not answer ({error})"


class Nvml:
    """All GPUs of this machine. A quantity a GPU cannot tell is left out."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self._handles = [api.nvmlDeviceGetHandleByIndex(i) for i in range(api.nvmlDeviceGetCount())]

    def read(self) -> list[dict[str, int]]:
        """One dict a GPU: percent, bytes, MHz, milliwatts, millijoules since the driver was loaded."""
        return [{"id": i, **self._read(handle)} for i, handle in enumerate(self._handles)]

    def names(self) -> list[str]:
        found = [self._api.nvmlDeviceGetName(handle) for handle in self._handles]
        return [name.decode() if isinstance(name, bytes) else str(name) for name in found]

    def driver(self) -> str:
        version = self._api.nvmlSystemGetDriverVersion()
        return version.decode() if isinstance(version, bytes) else str(version)

    def close(self) -> None:
        self._api.nvmlShutdown()

    def _read(self, handle: Any) -> dict[str, int]:
        api = self._api
        questions: dict[str, Callable[[], Any]] = {
            "utilisation": lambda: api.nvmlDeviceGetUtilizationRates(handle).gpu,
            "memory": lambda: api.nvmlDeviceGetMemoryInfo(handle).used,
            "sm_mhz": lambda: api.nvmlDeviceGetClockInfo(handle, api.NVML_CLOCK_SM),
            "power_mw": lambda: api.nvmlDeviceGetPowerUsage(handle),
            "energy_mj": lambda: api.nvmlDeviceGetTotalEnergyConsumption(handle),
            "own_memory": lambda: self._own_memory(handle),
        }
        answers: dict[str, int] = {}
        for name, ask in questions.items():
            try:
                answers[name] = int(ask())
            except api.NVMLError:
                continue
        return answers

    def _own_memory(self, handle: Any) -> int:
        running = self._api.nvmlDeviceGetComputeRunningProcesses(handle)
        return sum(p.usedGpuMemory or 0 for p in running if p.pid == os.getpid())
