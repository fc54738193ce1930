"""How busy the machine was: devices as they were and as nvidia-smi would have shown them, cores, run queues.

nvidia-smi's figure is the share of sample periods (1/6 s to 1 s, by product) in which at least one kernel ran, so
a device that computes for a millisecond in each period reads 100 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import by_device
from cutaway.analysis.intervals import length, union
from cutaway.analysis.kernels import part_of
from cutaway.analysis.processes import meters, samples_in
from cutaway.analysis.summary import DEVICE, EXECUTING, held
from cutaway.analysis.sweep import SHUTDOWN, STARTUP, STEADY
from cutaway.analysis.waits import busy_ns
from cutaway.vocabulary import DeviceKind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

PERIODS_NS = {"1/6 s": 1_000_000_000 // 6, "1 s": 1_000_000_000}
KERNELS = [DeviceKind.KERNEL, DeviceKind.COLLECTIVE]

_THREAD, _EXECUTING, _DEVICE = 1, 2, 4  # bits of `Swept.process_conditions`


def utilisation(run: Run) -> dict[str, Any]:
    """How busy devices and cores were, and what nvidia-smi would have shown. Shares are of `span_ns`, the time between the
    first and the last event of this part of the run.

    >>> run.utilisation()["devices"]["0"]["busy_ns"]
    840
    >>> run.steady().utilisation()["devices"]["0"]["busy_ns"]
    560
    """
    swept, found = run.swept, usage(run)
    # Over several processes the masks take a pass of their own.
    any_work = bool(found["devices"])
    masks = swept.conditions[run.part] if any_work else np.zeros(32, np.int64)
    return found | {
        "device_busy_ns": held(masks, DEVICE),
        "device_busy_all_waiting_ns": held(masks, DEVICE, EXECUTING),
        "device_collector_ns": _collector(run),
        "processes": [_process(i, masks) for i, masks in enumerate(swept.process_conditions[run.part])],
        "threads_executing": _share(int(busy_ns(run).sum()), found["span_ns"]),
    }


def usage(run: Run) -> dict[str, Any]:
    """What reports need of `utilisation`, without another pass over the run."""
    start = max(run.edges[0], run.span[0])
    span = start, max(start, min(run.edges[1], run.span[1]))
    return {
        "span_ns": span[1] - span[0],
        "devices": _devices(run, span),
        **_cores(run, span[1] - span[0]),
    }


def _collector(run: Run) -> int:
    """Time that the accelerator's own profiling library says it took from the program (CUPTI's overhead records)."""
    total, (first, end) = 0, run.edges
    for totals in run.swept.device_totals:
        unions = totals.unions if totals and totals.unions else None
        if unions:
            own = (unions["kind"] == DeviceKind.OVERHEAD) & (unions["part"] == part_of(run))
            total += int(unions["ns"][own].sum())
    works = zip(run.swept.devices, run.swept.device_totals, strict=True)
    for records in (work.records for work, totals in works if not totals):
        own = records[records["kind"] == DeviceKind.OVERHEAD]
        own = own[(own["start"] >= first) & (own["start"] < end)]
        total += length(union(own["start"], own["end"]))
    return total


def smi_share(busy: NDArray[np.int64], span: tuple[int, int], period: int) -> float:
    """Share of the periods of `span` that contain busy time; the last period may be shorter.

    >>> smi_share(np.array([[0, 1], [150, 160]]), (0, 400), 100)
    0.5
    """
    periods = max(-(-(span[1] - span[0]) // period), 1)
    first = np.clip((busy[:, 0] - span[0]) // period, 0, periods - 1)
    last = np.clip((busy[:, 1] - 1 - span[0]) // period, 0, periods - 1)
    return length(union(first, last + 1)) / periods


def _devices(run: Run, span: tuple[int, int]) -> dict[str, Any]:
    """Work of several processes on one device at one time counts once, unless it is known as totals only (`--keep`)."""
    out: dict[str, Any] = {}
    totals = run.swept.device_totals
    full = [work for work, known in zip(run.swept.devices, totals, strict=True) if not known]
    for device, records in by_device(full):
        start, end = (records[name].astype(np.int64).clip(*span) for name in ("start", "end"))
        busy = union(start, end)
        kernel = np.isin(records["kind"], KERNELS)
        kernels = union(start[kernel], end[kernel])
        out[str(device)] = {
            "busy_ns": length(busy),
            "busy": _share(length(busy), span[1] - span[0]),
            "nvidia_smi": {name: smi_share(kernels, span, period) for name, period in PERIODS_NS.items()},
        }
    for known in (known for known in totals if known and known.devices):
        for row, device in enumerate(known.devices["device"].tolist()):
            busy_ns, periods = _kept(
                run, known.devices["ns"].reshape(-1, 3)[row], known.devices["periods"].reshape(-1, 3, 2)[row]
            )
            before = out.get(str(device))
            busy_ns = min(busy_ns + (before["busy_ns"] if before else 0), span[1] - span[0])
            shares = {
                name: min(
                    1.0,
                    (before["nvidia_smi"][name] if before else 0.0)
                    + count / max(-(-(span[1] - span[0]) // period), 1),
                )
                for (name, period), count in zip(PERIODS_NS.items(), periods, strict=True)
            }
            share = _share(busy_ns, span[1] - span[0])
            out[str(device)] = {"busy_ns": busy_ns, "busy": share, "nvidia_smi": shares}
    return out


def _kept(run: Run, ns: NDArray[np.int64], periods: NDArray[np.int64]) -> tuple[int, list[int]]:
    """Of the totals of a device (by slice; by part and length of a period), those of this part of the run."""
    whole, startup, steady = periods.tolist()
    if run.part == "all" or (run.part == "steady" and not run.swept.steady_ns):
        return int(ns.sum()), whole
    part = {"startup": STARTUP, "steady": STEADY, "shutdown": SHUTDOWN}[run.part]
    if not run.swept.steady_ns:
        return 0, [0, 0]
    return int(ns[part]), {STARTUP: startup, STEADY: steady, SHUTDOWN: [0, 0]}[part]


def _process(index: int, masks: NDArray[np.int64]) -> dict[str, Any]:
    bits = np.arange(8)
    busy, waiting = bits & _DEVICE != 0, (bits & _THREAD != 0) & (bits & _EXECUTING == 0)
    return {
        "process": index,
        "device_busy_ns": int(masks[busy].sum()),
        "device_busy_all_waiting_ns": int(masks[busy & waiting].sum()),
        "all_waiting_ns": int(masks[waiting].sum()),
    }


def _cores(run: Run, span_ns: int) -> dict[str, Any]:
    """From sampled meters; None where nothing was sampled."""
    metered = [pair for of_process in meters(run.trace, run.edges) for pair in of_process.values()]
    cpu, runqueue = (sum(pair[i] for pair in metered) for i in (0, 1))
    values = [sample.get("foreign") for _, sample in samples_in(run)]
    foreign = [float(v) for v in values if isinstance(v, (int, float))]
    cpus = run.trace.about.get("cpus")
    found = {
        "cpu_ns": cpu,
        "cores_busy": _share(cpu, span_ns),
        "runqueue_ns": runqueue,
        "runqueue_share": _share(runqueue, cpu + runqueue),
    }
    return {
        "cpus": cpus if isinstance(cpus, int) else None,
        **(found if metered else dict.fromkeys(found)),
        "foreign_cores": float(np.mean(foreign)) if foreign else None,
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole > 0 else 0.0
