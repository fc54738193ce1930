"""Cores and devices in the steady state, as sampled."""

from __future__ import annotations

import os
from typing import Any

from cutaway.analysis import Run, Table
from cutaway.analysis.counters import device_use
from cutaway.analysis.processes import samples_in
from cutaway.analysis.table import totals
from cutaway.analysis.utilisation import nvidia

from ..digest import Machine


def machine(steady: Run, used: dict[str, Any], device_time: Table) -> Machine:
    """What was not sampled stays None; `used` is from `usage`."""
    devices = list(used["devices"].values())
    smi = [device["nvidia_smi"]["1/6 s"] for device in devices if nvidia(steady.trace)]
    return Machine(
        cores=used["cpus"] or os.cpu_count() or 1,
        cores_busy=used["cores_busy"],
        other_cores=used["other_cores"],
        use=device_use(steady.whole),
        runqueue_share=used["runqueue_share"],
        runnable=_runnable(used),
        device_busy=max((device["busy"] for device in devices), default=None),
        nvidia_smi=max(smi, default=None),
        device_copies=_copied(device_time) / max(1, used["span_ns"]),
        watts=_watts(steady),
    )


def _runnable(used: dict[str, Any]) -> float | None:
    """How many threads wanted a core, on average."""
    if used["cpu_ns"] is None:
        return None
    return float((used["cpu_ns"] + used["runqueue_ns"]) / max(1, used["span_ns"]))


def _copied(device_time: Table) -> int:
    """How long the device that copies most copied memory."""
    copies = device_time.where(layer="memcpy")
    by_device = totals((row["device"], row["ns"]) for row in copies)
    return max(by_device.values(), default=0)


def _watts(steady: Run) -> float | None:
    """Mean power of GPUs and CPUs together."""
    found = []
    for _, sample in samples_in(steady):
        power = sample.get("power")
        if not isinstance(power, dict):
            continue
        numbers = [n for n in power.values() if isinstance(n, (int, float))]
        if sum(numbers) > 0:
            found.append(float(sum(numbers)))
    if found:
        return sum(found) / len(found)
    return None
