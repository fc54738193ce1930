"""The kernels of one R2D2 training step, from the network's shapes: what a trace of the study's program would hold.

Batch of 64 sequences of 141 frames; convolutions and fully connected layers run over all frames at once, the LSTM step by step. Grids are
assumed (tiles of a matrix product), so the shares carry ±10–20 points; the assumption is sampled.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from functools import lru_cache

from cutaway.machines.gpu import Gpu, load
from cutaway_balance.operators import Cost
from cutaway_balance.stack import Kernel

BATCH, FRAMES, BURN_IN, ACTIONS = 64, 141, 40, 18
THREADS, REGISTERS = 256, 96


def duration(
    kernel: Kernel, gpu: Gpu, math_efficiency: float, memory_efficiency: float
) -> int:
    """Modelled nanoseconds of a kernel whose duration is not known: the roofline, wave quantisation and a launch floor."""
    if kernel.cost is None:
        raise ValueError("a kernel without known work has no modelled duration")
    utilisation = gpu.sm_utilisation(
        kernel.blocks, kernel.threads, kernel.registers, kernel.shared
    )
    peak = gpu.peak(kernel.cost.dtype, kernel.cost.matrix)
    compute = kernel.cost.flops / (peak * math_efficiency * utilisation)
    memory = kernel.cost.bytes / (gpu.bandwidth * memory_efficiency)
    return round(1e9 * (max(compute, memory) + 1e-6 * gpu.launch_floor_us))


def training_step(tile: tuple[int, int]) -> list[Kernel]:
    """Forward of both networks over all frames, backward over the frames after the burn-in, and the optimiser."""
    frames, trained = BATCH * FRAMES, BATCH * (FRAMES - BURN_IN)
    kernels = []
    for _ in ("online", "target"):
        kernels += _network(frames, FRAMES, tile)
    for _ in ("inputs", "weights"):
        kernels += _network(trained, FRAMES - BURN_IN, tile)
    return [*kernels, _adam(parameters=5.5e6)]


def inference(batch: int, tile: tuple[int, int]) -> list[Kernel]:
    """Forward of one network over a batch of single frames."""
    return _network(batch, 1, tile)


@lru_cache
def slowdown(part: str, sms: int, tile: tuple[int, int] = (128, 64)) -> float:
    """How much longer the kernels of `training`, or of `inference` on 128 frames, take with so many of the V100's SMs.

    Peak and wave quantisation go with the SMs, DRAM bandwidth and launches do not: as with the MPS limit of the study.
    """
    whole = load("v100")
    few = dataclasses.replace(
        whole,
        sms=sms,
        tflops={name: value * sms / whole.sms for name, value in whole.tflops.items()},
    )
    kernels = training_step(tile) if part == "training" else inference(128, tile)
    return sum(duration(k, few, 0.8, 0.8) for k in kernels) / sum(
        duration(k, whole, 0.8, 0.8) for k in kernels
    )


def _network(frames: int, steps: int, tile: tuple[int, int]) -> list[Kernel]:
    kernels = []
    for height, channels, out, size in ((20, 4, 32, 8), (9, 32, 64, 4), (7, 64, 64, 3)):
        kernels.append(
            _gemm("conv", frames * height * height, out, channels * size * size, tile)
        )
        kernels.append(_pointwise("relu", frames * height * height * out))
    kernels.append(_gemm("fc", frames, 512, 3136, tile))
    kernels += list(_lstm(steps, tile))
    for width in (1, ACTIONS):
        kernels.append(_gemm("head", frames, 512, 512, tile))
        kernels.append(_gemm("head", frames, width, 512, tile))
    return kernels


def _lstm(steps: int, tile: tuple[int, int]) -> Iterator[Kernel]:
    yield _gemm("lstm input", BATCH * steps, 4 * 512, 512 + 1 + ACTIONS, tile)
    for _ in range(steps):
        yield _gemm(
            "lstm step", BATCH, 4 * 512, 512, (min(tile[0], BATCH), tile[1] // 2)
        )
        yield _pointwise("lstm gates", BATCH * 4 * 512, per_element=10)


def _gemm(name: str, m: int, n: int, k: int, tile: tuple[int, int]) -> Kernel:
    blocks = math.ceil(m / tile[0]) * math.ceil(n / tile[1])
    cost = Cost(2.0 * m * n * k, 4.0 * (m * k + k * n + m * n), "float32", True)
    return Kernel(name, 0, blocks, THREADS, REGISTERS, cost=cost)


def _pointwise(name: str, elements: int, per_element: float = 1.0) -> Kernel:
    cost = Cost(per_element * elements, 8.0 * elements, "float32", False)
    return Kernel(name, 0, math.ceil(elements / (4 * THREADS)), THREADS, 32, cost=cost)


def _adam(parameters: float) -> Kernel:
    return Kernel(
        "adam",
        0,
        math.ceil(parameters / 1024),
        THREADS,
        32,
        cost=Cost(12 * parameters, 4 * 7 * parameters, "float32", False),
    )
