"""How busy the machine was: devices as they were and as nvidia-smi would have shown them, cores, run queues.

nvidia-smi's figure is the share of sample periods (1/6 s to 1 s, by product) in which at least one kernel ran, so
a device that computes for a millisecond in each period reads 100 %.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import Busy
from cutaway.analysis.intervals import length, union
from cutaway.analysis.processes import meters, samples_in
from cutaway.analysis.summary import DEVICE, EXECUTING, held
from cutaway.analysis.sweep import Swept
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
    any_work = any(devices.works for devices in swept.seen)
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
        "devices": _devices(run.swept, span),
        **_cores(run, span[1] - span[0]),
    }


def _collector(run: Run) -> int:
    """Time that the accelerator's own profiling library says it took from the program (CUPTI's overhead records)."""
    (found,) = run.swept.devices.busy(Busy(by=("process",), kinds=[DeviceKind.OVERHEAD], start=run.edges))
    return int(found["ns"].sum())


def smi_share(busy: NDArray[np.int64], span: tuple[int, int], period: int) -> float:
    """Share of the periods of `span` that contain busy time; the last period may be shorter.

    >>> smi_share(np.array([[0, 1], [150, 160]]), (0, 400), 100)
    0.5
    """
    periods = max(-(-(span[1] - span[0]) // period), 1)
    first = np.clip((busy[:, 0] - span[0]) // period, 0, periods - 1)
    last = np.clip((busy[:, 1] - 1 - span[0]) // period, 0, periods - 1)
    return length(union(first, last + 1)) / periods


def _devices(swept: Swept, span: tuple[int, int]) -> dict[str, Any]:
    edges = [np.append(np.arange(*span, period), span[1]) for period in PERIODS_NS.values()]
    smi = (Busy(by=("device",), kinds=KERNELS, edges=periods) for periods in edges)
    busy, *sampled = swept.devices.busy(Busy(by=("device",), edges=np.array(span)), *smi)
    out: dict[str, Any] = {
        str(row["device"]): {
            "busy_ns": row["bins"][0],
            "busy": _share(row["bins"][0], span[1] - span[0]),
            "nvidia_smi": dict.fromkeys(PERIODS_NS, 0.0),
        }
        for row in busy.sort("device")
    }
    for name, periods in zip(PERIODS_NS, sampled, strict=True):
        for device, bins in zip(periods["device"].tolist(), periods["bins"], strict=True):
            out[str(device)]["nvidia_smi"][name] = np.count_nonzero(bins) / max(len(bins), 1)
    return out


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
