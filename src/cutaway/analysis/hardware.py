"""What hardware counters mean: the measures people ask for, from the raw counters of each vendor. Pure functions.

A measure is computed where all the counters it needs are there, and unknown (NaN) otherwise. `counter_formulas` in
docs/counters.md explains the same table. Names are those of CUPTI, Nsight Compute and Nsight Systems (NVIDIA), rocprofv3 and
rocprof-compute (AMD).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import nan
from typing import NamedTuple

Values = Mapping[str, float]


class Share(NamedTuple):
    """A measure that is a share: its meaning, and its head in the table of `show`; one without a head is not in it."""

    meaning: str
    head: str = ""


SHARES = {
    "sm_active": Share("share of the time a multiprocessor (SM, CU) has work", "SM"),
    "occupancy": Share("resident warps, as a share of those that fit", "occ."),
    "compute": Share("share of the peak of the busiest compute unit", "comp."),
    "tensor": Share("share of the peak of the tensor cores (MFMA)", "tens."),
    "dram": Share("share of the peak bandwidth of device memory", "DRAM"),
    "l1_hit": Share("share of accesses that the first-level cache serves"),
    "l2_hit": Share("share of accesses that the second-level cache serves", "L2"),
}
"""Columns of the table `counters`, in the order in which `show` has them."""
AMOUNTS = {
    "flops": "floating-point operations",
    "bytes": "bytes read from and written to device memory; of XLA, what the compiler counts, on-chip memory included",
}
MEASURES = (*SHARES, *AMOUNTS)

_WAVE = 64  # threads of a wave on AMD's data-centre GPUs
_MATRIX_OPERATIONS = 512  # operations that one count of MFMA_MOPS stands for
_ONLY_GFX950 = "SQ_INSTS_VALU_MFMA_F6F4"


class Formula(NamedTuple):
    """One way to a measure: the counters it needs, and what to do with them."""

    measure: str
    needs: tuple[str, ...]
    compute: Callable[[Values], float]


def measure(values: Values, name: str) -> float:
    """A measure of a kernel or a moment, by the first formula whose counters are all there; NaN if there is none.

    >>> measure({"TCC_HIT_sum": 30.0, "TCC_MISS_sum": 10.0}, "l2_hit")
    0.75
    """
    for formula in _BY_MEASURE[name]:
        if all(counter in values for counter in formula.needs):
            return formula.compute(values)
    return nan


def _percent(name: str, *counters: str) -> Formula:
    """A measure that the tool itself reports, in percent; several counters are added up."""
    return Formula(
        name,
        counters,
        lambda values: sum(values[counter] for counter in counters) / 100,
    )


def _ratio(part: float, whole: float) -> float:
    if whole:
        return part / whole
    return nan


def _nvidia_flops(values: Values) -> float:
    total = 0.0
    for kind in "dfh":
        prefix = f"smsp__sass_thread_inst_executed_op_{kind}"
        total += values.get(f"{prefix}add_pred_on.sum", 0.0)
        total += values.get(f"{prefix}mul_pred_on.sum", 0.0)
        total += 2 * values.get(f"{prefix}fma_pred_on.sum", 0.0)
    return total


def _amd_flops(values: Values) -> float:
    total = 0.0
    for kind in ("F16", "F32", "F64"):
        total += _WAVE * values.get(f"SQ_INSTS_VALU_ADD_{kind}", 0.0)
        total += _WAVE * values.get(f"SQ_INSTS_VALU_MUL_{kind}", 0.0)
        total += _WAVE * values.get(f"SQ_INSTS_VALU_TRANS_{kind}", 0.0)
        total += _WAVE * 2 * values.get(f"SQ_INSTS_VALU_FMA_{kind}", 0.0)
    for kind in ("F8", "F16", "BF16", "F32", "F64"):
        total += _MATRIX_OPERATIONS * values.get(f"SQ_INSTS_VALU_MFMA_MOPS_{kind}", 0.0)
    return total


def _amd_bytes(prefix: str) -> Callable[[Values], float]:
    """Requests have 32 or 64 bytes, or 128 where `TCC_BUBBLE` counts them. On gfx950 (MI350) reads have other sizes, which
    the counters do not report: unknown."""

    def compute(values: Values) -> float:
        if _ONLY_GFX950 in values:
            return nan
        large = values.get("TCC_BUBBLE_sum", 0.0)
        reads = values[f"{prefix}RDREQ_sum"]
        small = values[f"{prefix}RDREQ_32B_sum"]
        writes = values[f"{prefix}WRREQ_sum"]
        full = values[f"{prefix}WRREQ_64B_sum"]
        read = 128 * large + 64 * (reads - large - small) + 32 * small
        return read + 64 * full + 32 * (writes - full)

    return compute


def _amd_bytes_formula(prefix: str) -> Formula:
    needs = ("RDREQ_sum", "RDREQ_32B_sum", "WRREQ_sum", "WRREQ_64B_sum")
    return Formula("bytes", tuple(prefix + name for name in needs), _amd_bytes(prefix))


def _amd_l1(values: Values) -> float:
    kinds = ("READ", "WRITE", "ATOMIC_WITH_RET", "ATOMIC_WITHOUT_RET")
    below = sum(values.get(f"TCP_TCC_{kind}_REQ_sum", 0.0) for kind in kinds)
    return 1 - _ratio(below, values["TCP_TOTAL_CACHE_ACCESSES_sum"])


_FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
_READ = "DRAM Read Bandwidth [Throughput %]"
_WRITE = "DRAM Write Bandwidth [Throughput %]"

FORMULAS: tuple[Formula, ...] = (
    # NVIDIA: CUPTI and Nsight Compute
    _percent("sm_active", "sm__cycles_active.avg.pct_of_peak_sustained_elapsed"),
    Formula(
        "sm_active",
        ("sm__cycles_active.avg", "sm__cycles_elapsed.avg"),
        lambda values: _ratio(
            values["sm__cycles_active.avg"], values["sm__cycles_elapsed.avg"]
        ),
    ),
    _percent("occupancy", "sm__warps_active.avg.pct_of_peak_sustained_active"),
    _percent("compute", "sm__throughput.avg.pct_of_peak_sustained_elapsed"),
    _percent(
        "tensor", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
    ),
    _percent(
        "tensor", "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"
    ),
    _percent(
        "tensor", "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"
    ),
    _percent("dram", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"),
    _percent("dram", "dram__throughput.avg.pct_of_peak_sustained_elapsed"),
    _percent("l1_hit", "l1tex__t_sector_hit_rate.pct"),
    _percent("l2_hit", "lts__t_sector_hit_rate.pct"),
    Formula("flops", (_FFMA,), _nvidia_flops),
    Formula("bytes", ("dram__bytes.sum",), lambda values: values["dram__bytes.sum"]),
    Formula(
        "bytes",
        ("dram__bytes_read.sum", "dram__bytes_write.sum"),
        lambda values: values["dram__bytes_read.sum"] + values["dram__bytes_write.sum"],
    ),
    # NVIDIA: Nsight Systems, --gpu-metrics-devices
    _percent("sm_active", "SMs Active [Throughput %]"),
    _percent("occupancy", "Compute Warps in Flight [Throughput %]"),
    _percent("compute", "SM Issue [Throughput %]"),
    _percent("tensor", "Tensor Active [Throughput %]"),
    _percent("dram", _READ, _WRITE),
    # AMD: rocprofv3 and rocprof-compute
    _percent("occupancy", "OccupancyPercent"),
    _percent("tensor", "MfmaUtil"),
    _percent("l2_hit", "L2CacheHit"),
    Formula(
        "l2_hit",
        ("TCC_HIT_sum", "TCC_MISS_sum"),
        lambda values: _ratio(
            values["TCC_HIT_sum"], values["TCC_HIT_sum"] + values["TCC_MISS_sum"]
        ),
    ),
    Formula(
        "l1_hit", ("TCP_TOTAL_CACHE_ACCESSES_sum", "TCP_TCC_READ_REQ_sum"), _amd_l1
    ),
    Formula("flops", ("SQ_INSTS_VALU_FMA_F32", "SQ_INSTS_VALU_ADD_F32"), _amd_flops),
    _amd_bytes_formula("TCC_EA_"),
    _amd_bytes_formula("TCC_EA0_"),
    # XLA: what the compiler knows of an operator
    Formula("flops", ("flops",), lambda values: values["flops"]),
    Formula("bytes", ("bytes_accessed",), lambda values: values["bytes_accessed"]),
    Formula(
        "compute",
        ("flops", "peak_flops", "ns"),
        lambda values: _ratio(
            values["flops"], values["peak_flops"] * values["ns"] / 1e9
        ),
    ),
)

_BY_MEASURE: dict[str, list[Formula]] = {name: [] for name in MEASURES}
for _formula in FORMULAS:
    _BY_MEASURE[_formula.measure].append(_formula)
