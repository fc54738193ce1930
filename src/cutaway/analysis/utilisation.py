"""How busy the machine was: devices as they were and as nvidia-smi would have shown them, cores, run queues.

nvidia-smi's figure is the share of sample periods (1/6 s to 1 s, by product) in which at least one kernel ran, so
a device that computes for a millisecond in each period reads 100 %.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.breakdown import summary_threads
from cutaway.analysis.devices import by_device
from cutaway.analysis.intervals import length, union
from cutaway.analysis.processes import life, meters
from cutaway.analysis.summary import DEVICE, EXECUTING, held
from cutaway.analysis.sweep import Swept
from cutaway.trace.format import DeviceKind
from cutaway.trace.reader import Trace

PERIODS_NS = {"1/6 s": 1_000_000_000 // 6, "1 s": 1_000_000_000}

_THREAD, _EXECUTING, _DEVICE = 1, 2, 4  # bits of `Swept.had`


def utilisation(trace: Trace, swept: Swept) -> dict[str, Any]:
    """Shares are of `span_ns`, the time between the first and the last event of the run."""
    span = run_span(trace, swept)
    return {
        "span_ns": span[1] - span[0],
        "devices": _devices(swept, span),
        "device_busy_ns": held(swept, DEVICE),
        "device_busy_all_waiting_ns": held(swept, DEVICE, EXECUTING),
        "processes": [_process(swept, index) for index in range(len(trace.processes))],
        **_cores(trace, span),
        "threads_executing": _share(_executing(swept), span[1] - span[0]),
    }


def run_span(trace: Trace, swept: Swept) -> tuple[int, int]:
    """From the first start to the last end of all processes."""
    lives = [life(process, swept, index) for index, process in enumerate(trace.processes)]
    return min((a for a, _ in lives), default=0), max((b for _, b in lives), default=0)


def smi_share(busy: NDArray[np.int64], span: tuple[int, int], period: int) -> float:
    """Share of the periods of `span` that contain busy time; the last period may be shorter.

    >>> smi_share(np.array([[0, 1], [150, 160]]), (0, 400), 100)
    0.5
    """
    periods = max(-(-(span[1] - span[0]) // period), 1)
    first = np.clip((busy[:, 0] - span[0]) // period, 0, periods - 1)
    last = np.clip((busy[:, 1] - 1 - span[0]) // period, 0, periods - 1)
    edges = np.zeros(periods + 1, np.int64)
    np.add.at(edges, first, 1)
    np.add.at(edges, last + 1, -1)
    return float((np.cumsum(edges[:-1]) > 0).sum() / periods)


def _devices(swept: Swept, span: tuple[int, int]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for device, records in by_device(swept.devices):
        busy = union(records["start"], records["end"])
        kernel = np.isin(records["kind"], [DeviceKind.KERNEL, DeviceKind.COLLECTIVE])
        kernels = union(records["start"][kernel], records["end"][kernel])
        out[str(device)] = {
            "busy_ns": length(busy),
            "busy": _share(length(busy), span[1] - span[0]),
            "nvidia_smi": {name: smi_share(kernels, span, period) for name, period in PERIODS_NS.items()},
        }
    return out


def _process(swept: Swept, index: int) -> dict[str, Any]:
    masks = np.arange(8)
    had = swept.had[index]
    busy, thread, executing = (masks & bit != 0 for bit in (_DEVICE, _THREAD, _EXECUTING))
    return {
        "process": index,
        "device_busy_ns": int(had[busy].sum()),
        "device_busy_all_waiting_ns": int(had[busy & thread & ~executing].sum()),
        "all_waiting_ns": int(had[thread & ~executing].sum()),
    }


def _executing(swept: Swept) -> int:
    cells = swept.cells
    keep = (cells["blocked"] == 0) & summary_threads(swept)[cells["thread"]]
    return int(cells["ns"][keep].sum())


def _cores(trace: Trace, span: tuple[int, int]) -> dict[str, Any]:
    """From sampled meters; None where nothing was sampled."""
    metered = [pair for of_process in meters(trace) for pair in of_process.values()]
    cpu, runqueue = (sum(pair[i] for pair in metered) for i in (0, 1))
    sampled = bool(metered)
    values = [s.get("foreign") for process in trace.processes for s in process.log.samples]
    foreign = [float(v) for v in values if isinstance(v, (int, float))]
    cpus = trace.about.get("cpus")
    return {
        "cpus": cpus if isinstance(cpus, int) else None,
        "cpu_ns": cpu if sampled else None,
        "cores_busy": _share(cpu, span[1] - span[0]) if sampled else None,
        "runqueue_ns": runqueue if sampled else None,
        "runqueue_share": _share(runqueue, cpu + runqueue) if sampled else None,
        "foreign_cores": float(np.mean(foreign)) if foreign else None,
    }


def _share(part: int, whole: int) -> float:
    return part / whole if whole > 0 else 0.0
