"""Reads reports of Nsight Compute (`*.ncu-rep`), with NVIDIA's own reader (`pip install ncu-report`).

Nsight Compute runs one kernel at a time, several times each. A report tells how long each kernel took, not when: kernels are laid
one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.trace.imports.columns import records
from cutaway.trace.imports.counters import Counted
from cutaway.trace.imports.recorded import HOST_DTYPE, Recorded
from cutaway.trace.imports.source import Limits, Progress
from cutaway.vocabulary import DeviceKind

MAGIC = b"NVR\0"
_DURATION = "gpu__time_duration.sum"
_CYCLES = "smsp__cycles_elapsed.avg"
_PER_CYCLE = ".sum.per_cycle_elapsed"
_UNIT = "smsp__sass_thread_inst_executed_op_"
_NOTE = "times are those of kernels run alone, several times each, and laid one after the other; see docs/counters.md"


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a report."""
    process = Recorded(
        1, path.name, [""], np.zeros(0, HOST_DTYPE), np.zeros(0, DEVICE_DTYPE)
    )
    starts = []
    ends = []
    names = []
    devices = []
    now = 0
    for action in _actions(path, limits):
        values = _values(action)
        ns = int(values.get(_DURATION, 0))
        device = int(values.get("launch__device_id", 0))
        process.texts.append(str(action.name(action.NameBase_DEMANGLED)))
        name = len(process.texts) - 1
        process.counters.kernels.append(Counted(name, values, device, ns))
        _add_device(process, action, device, values)
        if ns > 0:
            starts.append(now)
            ends.append(now + ns)
            names.append(name)
            devices.append(device)
            now += ns
    if not process.counters.kernels:
        raise CutawayError(
            f"{path} contains no kernels; record it again with ncu --set full."
        )
    rows = {
        "start": np.array(starts, np.int64),
        "end": np.array(ends, np.int64),
        "name": np.array(names, np.int64),
        "device": np.array(devices, np.int64),
    }
    process.device = records(DEVICE_DTYPE, rows, kind=DeviceKind.KERNEL)
    process.counts = {"format": "ncu-report", "counters": len(process.counters.kernels)}
    process.notes.append(_NOTE)
    progress(path.stat().st_size)
    return [process]


def _actions(path: Path, limits: Limits) -> Iterator[Any]:
    """The profiled kernels of a report."""
    try:
        import ncu_report
    except ImportError:
        raise CutawayError(
            f"{path} is a report of Nsight Compute; to read it, install NVIDIA's reader: pip install cutaway[ncu]."
        ) from None
    if path.stat().st_size > limits.size:
        raise CutawayError(
            f"{path} is larger than {limits.size >> 20} MB; if you trust it, raise --max-size."
        )
    try:
        report = ncu_report.load_report(str(path))
        for range_number in range(report.num_ranges()):
            part = report.range_by_idx(range_number)
            for number in range(part.num_actions()):
                yield part.action_by_idx(number)
    except (RuntimeError, ValueError, OSError) as error:
        if str(error):
            reason = str(error).splitlines()[0]
        else:
            reason = "it is damaged"
        raise CutawayError(
            f"{path} cannot be read as a report of Nsight Compute ({reason}); copy it again."
        ) from None


def _values(action: Any) -> dict[str, float]:
    """The counters of a kernel that are numbers. Instructions, which a report tells by cycle, are counted."""
    values: dict[str, float] = {}
    for name in action.metric_names():
        value = action.metric_by_name(name).value()
        if isinstance(value, (int, float)) and not name.startswith("breakdown:"):
            values[str(name)] = float(value)
    cycles = values.get(_CYCLES)
    for name in [
        name for name in values if name.startswith(_UNIT) and name.endswith(_PER_CYCLE)
    ]:
        total = name.removesuffix(".per_cycle_elapsed")
        if cycles is not None and total not in values:
            values[total] = values[name] * cycles
    return values


def _add_device(
    process: Recorded, action: Any, device: int, values: dict[str, float]
) -> None:
    if any(about["id"] == device for about in process.devices):
        return
    name = action.metric_by_name("device__attribute_display_name")
    process.devices.append(
        {
            "id": device,
            "name": str(name.value()) if name else "",
            "sms": int(values.get("device__attribute_multiprocessor_count", 0)),
            "major": int(values.get("device__attribute_compute_capability_major", 0)),
            "minor": int(values.get("device__attribute_compute_capability_minor", 0)),
        }
    )
