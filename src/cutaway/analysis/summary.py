"""The whole run in numbers: host against accelerator, over all processes, threads, streams and devices.

The host set is backend and accelerator API calls, the device set is kernels, copies, sets and collectives; the
span reaches from the first start to the last end of both. What lies in neither set is Python, simulators, waiting.
Recordings of other tools carry no more than these, so the numbers can be compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import UNATTRIBUTED
from cutaway.analysis.intervals import length, union
from cutaway.analysis.processes import FOREVER
from cutaway.analysis.sweep import Swept
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.reader import ProcessTrace, Trace
from cutaway.vocabulary import DEVICE_LAYERS, DEVICE_PICOSECONDS, THREAD_LAYERS, DeviceKind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

PYTHON, BACKEND, API, DEVICE, EXECUTING = (1 << bit for bit in range(5))
"""Bits of the masks by which `Swept.conditions` is indexed."""


def summary(run: Run) -> dict[str, Any]:
    """The whole run in numbers, whatever part it is asked of: host against accelerator, counts, `unattributed`
    device work, whose launch is not in the recording.

    >>> run.summary()["span_ns"]
    2880
    """
    trace, swept = run.trace, run.swept
    works = [_busy(process) for process in trace.processes]
    work = np.concatenate([np.zeros(0, DEVICE_DTYPE), *works])
    return {
        **_times(swept, work),
        **_device_times(work),
        **_counts(swept, work),
        **_launches(run, works),
        **_about_devices(trace),
        **_picoseconds(trace, works),
        **_imported(trace),
        "facts": trace.facts,
    }


def _busy(process: ProcessTrace) -> Structured:
    """The records of what made a device busy. One that ends before it starts (a broken clock) has no length."""
    records = process.device()
    records = records[np.isin(records["kind"], list(DEVICE_LAYERS))]
    records["end"] = np.maximum(records["start"], records["end"])
    return records


def held(masks: NDArray[np.int64], any_of: int, none_of: int = 0, and_of: int = ~0) -> int:
    """Time in which at least one of these conditions held, none of those, and one of `and_of`."""
    bits = np.arange(len(masks))
    return int(masks[(bits & any_of != 0) & (bits & none_of == 0) & (bits & and_of != 0)].sum())


def _times(swept: Swept, work: Structured) -> dict[str, Any]:
    host, masks = BACKEND | API, swept.conditions["all"]
    edges = [
        *(swept.cpu_span or ()),
        *((int(work["start"].min()), int(work["end"].max())) if len(work) else ()),
    ]
    span = max(edges) - min(edges) if edges else 0

    def against_device(host: int) -> dict[str, int]:
        return {
            "cpu_only_ns": held(masks, host, DEVICE),
            "gpu_only_ns": held(masks, DEVICE, host),
            "both_ns": held(masks, host, and_of=DEVICE),
        }

    return {
        "span_ns": span,
        "cpu_op_ns": held(masks, BACKEND),
        "cuda_api_ns": held(masks, API),
        "api_ns": held(masks, API),
        "cpu_op_or_api_ns": held(masks, host),
        "python_union_ns": held(masks, PYTHON),
        **against_device(host),
        "neither_ns": span - held(masks, host | DEVICE),
        "cpuop_vs_gpu": against_device(BACKEND),
    }


def _device_times(work: Structured) -> dict[str, Any]:
    collective = work[work["kind"] == DeviceKind.COLLECTIVE]
    kernels = work[np.isin(work["kind"], (DeviceKind.KERNEL, DeviceKind.COLLECTIVE))]
    busy, span = _busy_ns(work), int(work["end"].max() - work["start"].min()) if len(work) else 0
    return {
        "gpu_busy_ns": busy,
        "gpu_span_ns": span,
        "gpu_idle_in_gpu_span_ns": span - busy,
        "gpu_busy_by_device_ns": {
            str(device): _busy_ns(work[work["device"] == device])
            for device in np.unique(work["device"]).tolist()
        },
        "sum_kernel_ns": int((kernels["end"] - kernels["start"]).sum()),
        "comm_kernel_union_ns": _busy_ns(collective),
    }


def _busy_ns(work: Structured) -> int:
    return length(union(work["start"], work["end"]))


def _counts(swept: Swept, work: Structured) -> dict[str, Any]:
    kinds = np.bincount(work["kind"], minlength=max(DEVICE_LAYERS) + 1).tolist()
    streams = work["device"].astype(np.int64) << 32 | work["stream"]
    return {
        "n_kernel": kinds[DeviceKind.KERNEL] + kinds[DeviceKind.COLLECTIVE],
        "n_memcpy": kinds[DeviceKind.MEMCPY],
        "n_memset": kinds[DeviceKind.MEMSET],
        "n_comm_kernels": kinds[DeviceKind.COLLECTIVE],
        "n_gpu": len(work),
        "n_api": sum(devices.calls for devices in swept.seen),
        "n_cpu_op": _calls(swept, "backend"),
        "n_python": _calls(swept, "python"),
        "n_user_annotation": int(swept.operations["count"].sum()),
        "n_streams": len(np.unique(streams)),
        "cpu_threads": _host_threads(swept),
    }


def _calls(swept: Swept, layer: str) -> int:
    return int(swept.cells["calls"][swept.cells["layer"] == THREAD_LAYERS.index(layer)].sum())


def _host_threads(swept: Swept) -> int:
    """Threads with backend calls; the lanes of a thread whose events overlapped are one."""
    backend = (swept.cells["layer"] == THREAD_LAYERS.index("backend")) & (swept.cells["calls"] > 0)
    threads = np.unique(swept.cells["thread"][backend]).tolist()
    return len({(swept.names[t].process, swept.names[t].tid & 0xFFFFFF) for t in threads})


def _launches(run: Run, works: list[Structured]) -> dict[str, Any]:
    most, correlated = 0, 0
    for work in works:
        launched = work["correlation"][work["correlation"] != 0]
        correlated += len(launched)
        most = max(most, int(np.unique(launched, return_counts=True)[1].max(initial=0)))
    found = run.swept.devices.kernels((0, FOREVER), with_queue=False)
    return {
        "gpu_with_corr": correlated,
        "gpu_with_corr_in_api": int(found["launched"].sum()),
        "max_gpu_per_corr": most,
        "unattributed": int(found.where(operation=UNATTRIBUTED)["count"].sum()),
    }


def _about_devices(trace: Trace) -> dict[str, Any]:
    devices = {str(d.get("id")): d for process in trace.processes for d in process.log.devices}
    return {
        "devices": sorted({str(d["name"]) for d in devices.values() if d.get("name")}),
        "sm_count": sorted({int(d["sms"]) for d in devices.values() if isinstance(d.get("sms"), int)}),
    }


def _picoseconds(trace: Trace, works: list[Structured]) -> dict[str, Any]:
    """Busy time of each device in picoseconds, for recordings that are that fine (XPlane)."""
    found: dict[str, Any] = {}
    for process, work in zip(trace.processes, works, strict=True):
        devices = {d.get("id"): d for d in process.log.devices}
        records = work[work["flags"] & DEVICE_PICOSECONDS != 0]
        for device in np.unique(records["device"]).tolist():
            mine = records[records["device"] == device]
            base = mine["start"].min()  # picoseconds since the epoch do not fit 64 bits
            start = ((mine["start"] - base) * 1000 + (mine["queued_ns"] & 0xFFFF)).astype(np.int64)
            end = ((mine["end"] - base) * 1000 + (mine["queued_ns"] >> 16)).astype(np.int64)
            about = devices.get(device, {})
            found[str(about.get("name", device))] = {
                "lines": about.get("lines"),
                "n": len(mine),
                "busy_ps": length(union(start, end)),
                "span_ps": int(end.max() - start.min()),
            }
    return {"device_busy_ps": found} if found else {}


def _imported(trace: Trace) -> dict[str, Any]:
    """What an imported file held that a run does not show otherwise, as its reader counted it."""
    entries = [entry for p in trace.processes for entry in p.log.others if entry["k"] == "imported"]
    return {key: value for entry in entries for key, value in entry.items() if key != "k"}
