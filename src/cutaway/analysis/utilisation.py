"""How busy the machine was: host against accelerator, devices as they were and as nvidia-smi would have shown them, cores, run queues.

In `summary`, the host set is backend and accelerator API calls, the device set is kernels, copies, sets and collectives; the
span reaches from the first start to the last end of both. What lies in neither set is Python, simulators, waiting.
Recordings of other tools carry no more than these, so the numbers can be compared.

nvidia-smi's figure is the share of sample periods (1/6 s to 1 s, by product) in which at least one kernel ran, so
a device that computes for a millisecond in each period reads 100 %.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import UNATTRIBUTED, WHOLE_RUN, nvidia_smi
from cutaway.analysis.intervals import length, union
from cutaway.analysis.kernels import part_of
from cutaway.analysis.processes import busy_ns, meters, samples_in
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.trace.reader import ProcessTrace, Trace
from cutaway.vocabulary import (
    DEVICE_LAYERS,
    DEVICE_PICOSECONDS,
    THREAD_LAYERS,
    DeviceKind,
)

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

PYTHON, BACKEND, API, DEVICE, EXECUTING = (1 << bit for bit in range(5))
"""Bits of the masks by which `Swept.conditions` is indexed."""
_THREAD = 1
_EXECUTING = 2
_DEVICE = 4
"""Bits of the masks by which `Swept.process_conditions` is indexed."""
_OTHER_MAKERS = re.compile(
    r"AMD|Instinct|Radeon|gfx\d|TPU|MTIA|Intel|Xe|cpu|pocl", re.IGNORECASE
)
KERNELS = (DeviceKind.KERNEL, DeviceKind.COLLECTIVE)


def held(masks: NDArray[np.int64], *any_of: int, none_of: int = 0) -> int:
    """Time in which at least one condition of each of `any_of` held, and none of `none_of`."""
    bits = np.arange(len(masks))
    held = bits & none_of == 0
    for conditions in any_of:
        held &= bits & conditions != 0
    return int(masks[held].sum())


def utilisation(run: Run) -> dict[str, Any]:
    """How busy devices and cores were, and what nvidia-smi would have shown. Shares are of `span_ns`, the time between the
    first and the last event of this part of the run.

    >>> run.utilisation()["devices"]["0"]["busy_ns"]
    840
    >>> run.steady().utilisation()["devices"]["0"]["busy_ns"]
    560
    """
    swept = run.swept
    found = usage(run)
    # Time that the accelerator's own profiling library says it took (CUPTI's overhead records).
    own = swept.devices.busy_times(part_of(run)).where(kind=DeviceKind.OVERHEAD)
    # Over several processes the masks take a pass of their own.
    any_work = bool(found["devices"])
    if any_work:
        masks = swept.conditions[run.part]
    else:
        masks = np.zeros(32, np.int64)
    return found | {
        "device_busy_ns": held(masks, DEVICE),
        "device_busy_all_waiting_ns": held(masks, DEVICE, none_of=EXECUTING),
        "device_collector_ns": int(own["ns"].sum()),
        "processes": [
            {
                "process": index,
                "device_busy_ns": held(masks, _DEVICE),
                "device_busy_all_waiting_ns": held(
                    masks, _DEVICE, _THREAD, none_of=_EXECUTING
                ),
                "all_waiting_ns": held(masks, _THREAD, none_of=_EXECUTING),
            }
            for index, masks in enumerate(swept.held.by_process[run.part])
        ],
        "threads_executing": _share(int(busy_ns(run).sum()), found["span_ns"]),
    }


def nvidia(trace: Trace) -> bool:
    """Whether nvidia-smi could say anything about the devices of a run: not about those of AMD, Intel or Google."""
    logged = chain.from_iterable(process.log.devices for process in trace.processes)
    devices = [str(device.get("name") or "") for device in logged]
    names = chain.from_iterable(p.log.names.values() for p in trace.processes)
    hip = any(name.startswith("hip") for name in names)
    return not hip and not any(_OTHER_MAKERS.search(name) for name in devices)


def usage(run: Run) -> dict[str, Any]:
    """What reports need of `utilisation`, without another pass over the run. Figures of sampled meters are None where nothing
    was sampled."""
    start = max(run.edges[0], run.span[0])
    span = start, max(start, min(run.edges[1], run.span[1]))
    span_ns = span[1] - span[0]
    cpu = runqueue = 0
    metered = 0
    for of_process in meters(run.trace, run.edges):
        metered += len(of_process)
        for used, waited in of_process.values():
            cpu += used
            runqueue += waited
    found = {
        "cpu_ns": cpu,
        "cores_busy": _share(cpu, span_ns),
        "runqueue_ns": runqueue,
        "runqueue_share": _share(runqueue, cpu + runqueue),
    }
    others = [
        float(v)
        for _, sample in samples_in(run)
        if (v := sample.get("foreign")) is not None
    ]
    cpus = run.trace.about.get("cpus")
    return {
        "span_ns": span_ns,
        "devices": _devices(run, span),
        "cpus": cpus if isinstance(cpus, int) else None,
        **(found if metered else dict.fromkeys(found)),
        "other_cores": float(np.mean(others)) if others else None,
    }


def _devices(run: Run, span: tuple[int, int]) -> dict[str, Any]:
    """Of each device how long it was busy, and what nvidia-smi would have shown."""
    span_ns = span[1] - span[0]
    out: dict[str, Any] = {}
    for row in run.swept.devices.used(part_of(run), span):
        busy_ns = min(row["ns"], span_ns)
        out[str(row["device"])] = {
            "busy_ns": busy_ns,
            "busy": _share(busy_ns, span_ns),
            "nvidia_smi": nvidia_smi((row["short"], row["long"]), span_ns),
        }
    return out


def _share(part: int, whole: int) -> float:
    if whole > 0:
        return part / whole
    return 0.0


def summary(run: Run) -> dict[str, Any]:
    """The whole run in numbers, whatever part it is asked of: host against accelerator, counts, `unattributed`
    device work, whose launch is not in the recording.

    >>> run.summary()["span_ns"]
    2880
    """
    logs = [process.log for process in run.trace.processes]
    works = [busy_records(process) for process in run.trace.processes]
    work = np.concatenate([np.zeros(0, DEVICE_DTYPE), *works])
    logged = chain.from_iterable(log.devices for log in logs)
    devices = {str(device.get("id")): device for device in logged}.values()
    imported: dict[str, Any] = {}
    for entry in chain.from_iterable(log.others for log in logs):
        if entry["k"] == "imported":
            imported.update(entry)
    imported.pop("k", None)
    return {
        **_times(run, work),
        **_counts(run),
        "devices": sorted({str(d["name"]) for d in devices if d.get("name")}),
        "sm_count": sorted(
            {int(d["sms"]) for d in devices if isinstance(d.get("sms"), int)}
        ),
        **_picoseconds(run, works),
        # What an imported file held that a run does not show otherwise, as its reader counted it.
        **imported,
        "facts": run.trace.facts,
    }


def busy_records(process: ProcessTrace) -> Structured:
    """The records of what made a device busy. One that ends before it starts (a broken clock) has no length."""
    records = process.device()
    records = records[np.isin(records["kind"], list(DEVICE_LAYERS))]
    records["end"] = np.maximum(records["start"], records["end"])
    return records


def _times(run: Run, work: Structured) -> dict[str, Any]:
    masks = run.swept.conditions["all"]
    host = BACKEND | API
    edges = [*(run.swept.held.cpu_span or ())]
    if len(work):
        edges += [int(work["start"].min()), int(work["end"].max())]
    span = max(edges, default=0) - min(edges, default=0)
    return {
        "span_ns": span,
        "cpu_op_ns": held(masks, BACKEND),
        "api_ns": held(masks, API),
        "cpu_only_ns": held(masks, host, none_of=DEVICE),
        "gpu_only_ns": held(masks, DEVICE, none_of=host),
        "both_ns": held(masks, host, DEVICE),
        "neither_ns": span - held(masks, host | DEVICE),
        "gpu_busy_ns": length(union(work["start"], work["end"])),
    }


def _counts(run: Run) -> dict[str, Any]:
    swept = run.swept
    cells = swept.cells
    found = swept.devices.by_launch(WHOLE_RUN)
    of_kind = found.group(["kind"], ["count"])
    kinds = dict(zip(of_kind["kind"].tolist(), of_kind["count"].tolist(), strict=True))
    backend = cells["layer"] == THREAD_LAYERS.index("backend")
    threads = np.unique(cells["thread"][backend & (cells["calls"] > 0)])
    hosts = [swept.thread_names[thread] for thread in threads.tolist()]
    return {
        "n_kernel": sum(kinds.get(kind, 0) for kind in KERNELS),
        "n_memcpy": kinds.get(DeviceKind.MEMCPY, 0),
        "n_memset": kinds.get(DeviceKind.MEMSET, 0),
        "n_gpu": sum(kinds.values()),
        "n_api": sum(devices.calls for devices in swept.devices.seen),
        "n_cpu_op": int(cells["calls"][backend].sum()),
        # The lanes of a thread whose events overlapped are one.
        "cpu_threads": len({(name.process, name.tid & 0xFFFFFF) for name in hosts}),
        "unattributed": int(found.where(operation=UNATTRIBUTED)["count"].sum()),
    }


def _picoseconds(run: Run, works: list[Structured]) -> dict[str, Any]:
    """Busy time of each device in picoseconds, for recordings that are that fine (XPlane)."""
    found: dict[str, Any] = {}
    for process, work in zip(run.trace.processes, works, strict=True):
        devices = {d.get("id"): d for d in process.log.devices}
        records = work[work["flags"] & DEVICE_PICOSECONDS != 0]
        for device in np.unique(records["device"]).tolist():
            mine = records[records["device"] == device]
            about = devices.get(device, {})
            base = mine["start"].min()  # picoseconds since the epoch do not fit 64 bits
            start = (
                (mine["start"] - base) * 1000 + (mine["queued_ns"] & 0xFFFF)
            ).astype(np.int64)
            end = ((mine["end"] - base) * 1000 + (mine["queued_ns"] >> 16)).astype(
                np.int64
            )
            found[str(about.get("name", device))] = {
                "lines": about.get("lines"),
                "n": len(mine),
                "busy_ps": length(union(start, end)),
                "span_ps": int(end.max() - start.min()),
            }
    if found:
        return {"device_busy_ps": found}
    return {}
