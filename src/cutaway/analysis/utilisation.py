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
from cutaway.analysis.processes import FOREVER, life, meters, sampled_in
from cutaway.analysis.summary import DEVICE, EXECUTING, held
from cutaway.analysis.sweep import Swept
from cutaway.trace.reader import Trace
from cutaway.vocabulary import DeviceKind

PERIODS_NS = {"1/6 s": 1_000_000_000 // 6, "1 s": 1_000_000_000}
KERNELS = [DeviceKind.KERNEL, DeviceKind.COLLECTIVE]

_THREAD, _EXECUTING, _DEVICE = 1, 2, 4  # bits of `Swept.had`


def utilisation(trace: Trace, swept: Swept, part: str, keep: NDArray[np.bool_]) -> dict[str, Any]:
    """Shares are of `span_ns`, the time between the first and the last event of this part of the run; `keep` are
    its cells."""
    edges, whole = part_edges(swept, part), run_span(trace, swept)
    span = max(edges[0], whole[0]), max(edges[0], whole[0], min(edges[1], whole[1]))
    # Over several processes `of` takes a pass of its own.
    any_work = any(work.busy.any() for work in swept.devices)
    of = swept.of[part] if any_work else np.zeros(32, np.int64)
    return {
        "span_ns": span[1] - span[0],
        "devices": _devices(swept, span),
        "device_busy_ns": held(of, DEVICE),
        "device_busy_all_waiting_ns": held(of, DEVICE, EXECUTING),
        "device_collector_ns": _collector(swept, edges),
        "processes": [_process(index, had) for index, had in enumerate(swept.had[part])],
        **_cores(trace, span, edges),
        "threads_executing": _share(_executing(trace, swept, keep), span[1] - span[0]),
    }


def part_edges(swept: Swept, part: str) -> tuple[int, int]:
    """Between which instants things belong to a part of the run: its start-up ends when that of its first process
    with iterations does."""
    edge = swept.steady_ns
    return (0, edge) if part == "startup" else (edge, FOREVER) if part == "steady" else (0, FOREVER)


def _collector(swept: Swept, edges: tuple[int, int]) -> int:
    """Time that the accelerator's own profiling library says it took from the program (CUPTI's overhead records)."""
    total = 0
    for work in swept.devices:
        own = work.records[work.records["kind"] == DeviceKind.OVERHEAD]
        own = own[(own["start"] >= edges[0]) & (own["start"] < edges[1])]
        total += length(union(own["start"], own["end"]))
    return total


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
    return length(union(first, last + 1)) / periods


def _devices(swept: Swept, span: tuple[int, int]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for device, records in by_device(swept.devices):
        start, end = (records[name].astype(np.int64).clip(*span) for name in ("start", "end"))
        busy = union(start, end)
        kernel = np.isin(records["kind"], KERNELS)
        kernels = union(start[kernel], end[kernel])
        out[str(device)] = {
            "busy_ns": length(busy),
            "busy": _share(length(busy), span[1] - span[0]),
            "nvidia_smi": {name: smi_share(kernels, span, period) for name, period in PERIODS_NS.items()},
        }
    return out


def _process(index: int, had: NDArray[np.int64]) -> dict[str, Any]:
    masks = np.arange(8)
    busy, thread, executing = (masks & bit != 0 for bit in (_DEVICE, _THREAD, _EXECUTING))
    return {
        "process": index,
        "device_busy_ns": int(had[busy].sum()),
        "device_busy_all_waiting_ns": int(had[busy & thread & ~executing].sum()),
        "all_waiting_ns": int(had[thread & ~executing].sum()),
    }


def _executing(trace: Trace, swept: Swept, keep: NDArray[np.bool_]) -> int:
    cells = swept.cells
    keep = keep & (cells["blocked"] == 0) & summary_threads(trace, swept)[cells["thread"]]
    return int(cells["ns"][keep].sum())


def _cores(trace: Trace, span: tuple[int, int], edges: tuple[int, int]) -> dict[str, Any]:
    """From sampled meters; None where nothing was sampled."""
    metered = [pair for of_process in meters(trace, edges) for pair in of_process.values()]
    cpu, runqueue = (sum(pair[i] for pair in metered) for i in (0, 1))
    sampled = bool(metered)
    values = [s.get("foreign") for p in trace.processes for s in p.log.samples if sampled_in(s, edges)]
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
