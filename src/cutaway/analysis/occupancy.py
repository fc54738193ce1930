"""Occupancy of a kernel, computed from what it asks for and what a multiprocessor has. Pure functions.

Kineto's own estimate reads 0 for many kernels of newer GPUs; grid, block, registers and shared memory are always there.
Rules and limits are those of NVIDIA's programming guide, by compute capability; warps of 32 threads, registers handed out
to warps in units of 256, at most 255 a thread.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cutaway.machines.multiprocessor import Multiprocessor

_WARP = 32
_WARPS_TOGETHER = (
    4  # warps of a block are placed on the four schedulers of a multiprocessor
)
_REGISTERS = 65536
_REGISTER_UNIT = 256


class Occupancy(NamedTuple):
    """For each kernel, as shares of the threads the device can hold; NaN where the device is not known. `theoretical`: were the
    grid large enough to fill every multiprocessor; `estimated`: with the grid as it was, which may leave some empty."""

    theoretical: NDArray[np.float64]
    estimated: NDArray[np.float64]


def occupancy(
    limits: Multiprocessor | None,
    multiprocessors: int,
    grid: ArrayLike,
    block: ArrayLike,
    registers: ArrayLike,
    shared: ArrayLike,
) -> Occupancy:
    """Occupancy of kernels: `grid` and `block` are rows of three, `shared` is static and dynamic bytes together.

    >>> from cutaway.machines.multiprocessor import multiprocessor
    >>> h100 = multiprocessor(9, 0)
    >>> found = occupancy(h100, 132, [[1320, 1, 1]], [[256, 1, 1]], [64], [0])
    >>> found.theoretical.item(), found.estimated.item()
    (0.5, 0.5)
    """
    blocks, threads = (
        np.asarray(shape, np.int64).reshape(-1, 3).prod(axis=1)
        for shape in (grid, block)
    )
    unknown = np.full(len(threads), np.nan)
    if limits is None:
        return Occupancy(unknown, unknown)
    warps = np.maximum(-(-threads // _WARP), 1)
    by_warps = limits.threads // _WARP // warps
    per_warp = (
        -(-np.asarray(registers, np.int64) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    )
    room = _REGISTERS // np.maximum(per_warp, 1) // _WARPS_TOGETHER * _WARPS_TOGETHER
    by_registers = np.where(per_warp > 0, room // warps, limits.blocks)
    needed = np.asarray(shared, np.int64) + limits.shared_reserved
    needed = -(-needed // limits.shared_unit) * limits.shared_unit
    by_shared = np.where(
        needed > 0, limits.shared_bytes // np.maximum(needed, 1), limits.blocks
    )
    fitting = np.minimum(np.minimum(by_warps, by_registers), by_shared).clip(
        0, limits.blocks
    )
    present = np.minimum(fitting, blocks / max(multiprocessors, 1))
    whole, partly = (
        np.where(threads > 0, n * threads / limits.threads, np.nan)
        for n in (fitting, present)
    )
    return Occupancy(whole, partly if multiprocessors > 0 else unknown)
