"""The GPU bottleneck stack: operators against an independent tool, parts that add up, coverage that is stated."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import pytest

from cutaway.commands import main
from cutaway.errors import CutawayError
from cutaway.machines import gpu
from cutaway.machines.gpu import Gpu
from cutaway_balance import operators
from cutaway_balance import stack as stacks
from cutaway_balance.measured import Work
from cutaway_balance.operators import Cost, Operator
from cutaway_balance.stack import read, stack

pytestmark = pytest.mark.core
DATA = Path(__file__).parents[1] / "data" / "gemm"
COUNTERS = Path(__file__).parents[1] / "data" / "counters"
PAIRS = [
    ("tl_h100_bert_small.json.gz", "h100_bert_small_GEMM.csv"),
    ("tl_h100_qwen05b.json.gz", "h100_qwen05b_GEMM.csv"),
]


def calls(trace: Path) -> list[Operator]:
    """Every call of an operator that launched kernels."""
    with stacks.opened(trace) as run:
        launched = [
            (set(p.device()["correlation"].tolist()), stacks.operators(p))
            for p in run.processes
        ]
    return [
        operator
        for ours, found in launched
        for operator in found
        for call in operator.calls
        if ours & set(call)
    ]


def key(name: str, gflops: float, mib: float) -> tuple[str, float, float]:
    return name, round(gflops, 9), round(mib, 9)


@pytest.mark.parametrize(("trace", "reference"), PAIRS)
def test_flops_and_bytes_of_matrix_products_match_the_independent_tool(
    trace: str, reference: str
) -> None:
    ours: Counter[tuple[str, float, float]] = Counter()
    for op in calls(DATA / trace):
        cost = operators.cost(op)
        if cost is not None and cost.matrix:
            ours[key(op.name, cost.flops / 1e9, cost.bytes / 2**20)] += 1
    theirs: Counter[tuple[str, float, float]] = Counter()
    with (DATA / reference).open() as file:
        for row in csv.DictReader(file):
            theirs[
                key(
                    row["name"],
                    float(row["GFLOPS_first"]),
                    float(row["Data Moved (MB)_first"]),
                )
            ] += int(row["name_count"])
    assert ours == theirs


@pytest.mark.parametrize("name", sorted(p.stem for p in gpu.GPUS.glob("*.toml")))
def test_parts_of_a_real_trace_add_up_on_every_device(name: str) -> None:
    kernels = stacks.read(DATA / PAIRS[0][0])
    result = stacks.stack(kernels, gpu.load(name))
    assert len(kernels) == 60
    assert sum(result.ns.values()) == pytest.approx(result.covered_ns)
    assert all(value >= 0 for value in result.ns.values())
    assert 0.5 < result.coverage < 1
    assert result.total_ns == 307_197


def test_each_limit_is_found_where_it_was_planted() -> None:
    v100 = gpu.load("v100")
    full = {"blocks": 80 * 8 * 10, "threads": 256}
    seconds = 1e-3
    math_bound = stacks.Kernel(
        "m",
        1_000_000,
        **full,
        cost=Cost(seconds * v100.peak("float32"), 1, "float32", True),
    )
    memory_bound = stacks.Kernel(
        "d", 1_000_000, **full, cost=Cost(1, seconds * v100.bandwidth, "float32", True)
    )
    half_empty = stacks.Kernel(
        "s", 2_000_000, blocks=40, threads=256, cost=math_bound.cost
    )
    waiting = stacks.Kernel("l", 1_000_000, **full, cost=Cost(1, 1, "float32", True))
    largest = [
        max(stacks.idealise(k, v100).items(), key=lambda kv: kv[1])
        for k in (math_bound, memory_bound, waiting)
    ]
    assert [part for part, _ in largest] == [
        "math",
        "dram_bandwidth",
        "latency_and_on_chip",
    ]
    assert stacks.idealise(half_empty, v100)["sm_utilisation"] == pytest.approx(
        1_000_000
    )


def test_a_convolution_counts_every_multiply_add() -> None:
    op = Operator(
        "aten::convolution",
        [[2, 4, 84, 84], [32, 4, 8, 8]],
        ["float", "float"],
        ["", "", "", "[4, 4]", "[0, 0]", "[1, 1]"],
    )
    cost = operators.cost(op)
    assert cost is not None
    assert cost.flops == 2 * (2 * 32 * 20 * 20) * (4 * 8 * 8)


def test_unknown_work_is_uncovered_not_guessed() -> None:
    assert operators.cost(Operator("my::op", [[3]], ["float"])) is None
    assert operators.cost(Operator("aten::mm", [[3]], ["float"])) is None
    result = stacks.stack([stacks.Kernel("?", 10)], gpu.load("h100"))
    assert (result.coverage, result.total_ns) == (0.0, 10)


def test_utilisation_counts_the_tail_wave() -> None:
    v100 = gpu.load("v100")
    assert v100.resident_blocks(threads=1024, registers=64, shared=0) == 1
    assert v100.sm_utilisation(blocks=81, threads=1024, registers=64) == pytest.approx(
        (1 + 1 / 80) / 2
    )


@pytest.mark.parametrize("text", ["", "[1, 2", '{"a": 1}', "null"])
def test_a_file_that_is_no_trace_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(CutawayError, match=r"x\.json"):
        stacks.read(path)


REQUESTS = (
    131086,
    131086,
    131087,
    131072,
    91072,
    91113,
)  # of three dispatches: reads, writes
MOVED = 64 * sum(REQUESTS)


def test_measured_counters_are_the_work_of_a_kernel() -> None:
    """A copy on an MI200, counted by rocprof-compute: nobody told the shapes of its inputs."""
    kernels = read(COUNTERS / "rocm_vcopy_MI200_pmc_perf.csv")
    assert [kernel.ns for kernel in kernels] == [20480, 16320, 15520]
    assert all(kernel.counted and kernel.cost is not None for kernel in kernels)
    mi250x = Gpu("MI250X", sms=110, bandwidth_gbs=1638.0, tflops={"float32": 47.9})
    found = stack(kernels, mi250x)
    assert found.coverage == 1.0
    expected = MOVED / 1638 / (20480 + 16320 + 15520)
    assert found.shares["dram_bandwidth"] == pytest.approx(expected, rel=1e-6)
    assert found.shares["math"] == 0.0


def test_what_was_not_counted_is_taken_from_the_model() -> None:
    modelled = Cost(8.0, 5.0, "float16", True)
    counted = Work(count=2, flops=20.0, bytes=math.nan)
    assert counted.cost(modelled) == Cost(10.0, 5.0, "float16", True)
    assert counted.cost(None) is None


def test_the_command_says_what_was_measured(
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = str(COUNTERS / "rocm_vcopy_MI200_pmc_perf.csv")
    assert main(["balance", "kernels", path, "--gpu", "v100"]) == 0
    told = capsys.readouterr().out
    assert "Hardware counters measured the work of 100% of it." in told
