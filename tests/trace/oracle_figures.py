"""Figures by which other readers of traces are compared with ours; nobody asks a run for them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import WHOLE_RUN
from cutaway.analysis.intervals import length, union
from cutaway.analysis.run import Run
from cutaway.analysis.utilisation import (
    API,
    BACKEND,
    DEVICE,
    KERNELS,
    PYTHON,
    busy_records,
    held,
)
from cutaway.trace.format import DEVICE_DTYPE, Structured
from cutaway.vocabulary import THREAD_LAYERS, DeviceKind


def figures(run: Run) -> dict[str, Any]:
    """`Run.summary` and what oracles say besides."""
    works = [busy_records(process) for process in run.trace.processes]
    work = np.concatenate([np.zeros(0, DEVICE_DTYPE), *works])
    own = {**_hosts(run), **_devices(work), **_launches(run, works), **_counts(run)}
    return own | run.summary()


def _hosts(run: Run) -> dict[str, Any]:
    masks = run.swept.conditions["all"]
    return {
        "cuda_api_ns": held(masks, API),
        "cpu_op_or_api_ns": held(masks, BACKEND | API),
        "python_union_ns": held(masks, PYTHON),
        "cpuop_vs_gpu": {
            "cpu_only_ns": held(masks, BACKEND, none_of=DEVICE),
            "gpu_only_ns": held(masks, DEVICE, none_of=BACKEND),
            "both_ns": held(masks, BACKEND, DEVICE),
        },
    }


def _devices(work: Structured) -> dict[str, Any]:
    kernels = work[np.isin(work["kind"], KERNELS)]
    collectives = work[work["kind"] == DeviceKind.COLLECTIVE]
    streams = work["device"].astype(np.int64) << 32 | work["stream"]
    span = int(work["end"].max() - work["start"].min()) if len(work) else 0
    by_device = {}
    for device in np.unique(work["device"]).tolist():
        by_device[str(device)] = _busy_ns(work[work["device"] == device])
    return {
        "gpu_span_ns": span,
        "gpu_idle_in_gpu_span_ns": span - _busy_ns(work),
        "gpu_busy_by_device_ns": by_device,
        "sum_kernel_ns": int((kernels["end"] - kernels["start"]).sum()),
        "comm_kernel_union_ns": _busy_ns(collectives),
        "n_comm_kernels": len(collectives),
        "n_streams": len(np.unique(streams)),
    }


def _launches(run: Run, works: list[Structured]) -> dict[str, Any]:
    found = run.swept.devices.by_launch(WHOLE_RUN)
    launched = [work["correlation"][work["correlation"] != 0] for work in works]
    return {
        "gpu_with_corr": sum(map(len, launched)),
        "gpu_with_corr_in_api": int(found["launched"].sum()),
        "max_gpu_per_corr": max(map(_most_common, launched), default=0),
    }


def _most_common(ids: NDArray[Any]) -> int:
    return int(np.unique(ids, return_counts=True)[1].max(initial=0))


def _counts(run: Run) -> dict[str, Any]:
    cells = run.swept.cells
    python = cells["layer"] == THREAD_LAYERS.index("python")
    return {
        "n_python": int(cells["calls"][python].sum()),
        "n_user_annotation": int(run.swept.operations["count"].sum()),
    }


def _busy_ns(work: Structured) -> int:
    return length(union(work["start"], work["end"]))
