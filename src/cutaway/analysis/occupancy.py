"""Occupancy of a kernel, computed from what it asks for and what a multiprocessor has. Pure functions.

Kineto's own estimate reads 0 for many kernels of newer GPUs; grid, block, registers and shared memory are always there.
Rules and limits are those of NVIDIA's programming guide, by compute capability; warps of 32 threads, registers handed out
to warps in units of 256, at most 255 a thread.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_WARP = 32
_WARPS_TOGETHER = 4  # warps of a block are placed on the four schedulers of a multiprocessor
_REGISTER_UNIT = 256


@dataclass(frozen=True)
class Multiprocessor:
    """What one multiprocessor (SM) of a compute capability can hold at once."""

    threads: int
    blocks: int
    shared_bytes: int
    shared_unit: int
    shared_reserved: int
    """Taken by the system from every block."""
    registers: int = 65536


LIMITS = {
    (6, 0): Multiprocessor(2048, 32, 64 << 10, 256, 0),
    (6, 1): Multiprocessor(2048, 32, 96 << 10, 256, 0),
    (7, 0): Multiprocessor(2048, 32, 96 << 10, 256, 0),
    (7, 5): Multiprocessor(1024, 16, 64 << 10, 256, 0),
    (8, 0): Multiprocessor(2048, 32, 164 << 10, 128, 1024),
    (8, 6): Multiprocessor(1536, 16, 100 << 10, 128, 1024),
    (8, 7): Multiprocessor(1536, 16, 164 << 10, 128, 1024),
    (8, 9): Multiprocessor(1536, 24, 100 << 10, 128, 1024),
    (9, 0): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (10, 0): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (10, 3): Multiprocessor(2048, 32, 228 << 10, 128, 1024),
    (12, 0): Multiprocessor(1536, 24, 100 << 10, 128, 1024),
}


@dataclass(frozen=True)
class Occupancy:
    """For each kernel, as shares of the threads the device can hold; NaN where the device is not known."""

    theoretical: NDArray[np.float64]
    """Were the grid large enough to fill every multiprocessor."""
    estimated: NDArray[np.float64]
    """With the grid as it was: a small grid leaves multiprocessors empty."""


def multiprocessor(major: int, minor: int) -> Multiprocessor | None:
    """The limits of a compute capability; a newer minor is taken for the nearest older one of its generation."""
    known = [(a, b) for a, b in LIMITS if a == major and b <= minor]
    return LIMITS[max(known)] if known else None


def blocks_per_multiprocessor(
    limits: Multiprocessor, threads: ArrayLike, registers: ArrayLike, shared: ArrayLike
) -> NDArray[np.int64]:
    """How many blocks of a kernel fit on one multiprocessor at once."""
    warps = -(-np.asarray(threads, np.int64) // _WARP)
    most_warps = limits.threads // _WARP
    by_warps = most_warps // np.maximum(warps, 1)
    per_warp = -(-np.asarray(registers, np.int64) * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT
    room = limits.registers // np.maximum(per_warp, 1)
    warps_by_registers = room // _WARPS_TOGETHER * _WARPS_TOGETHER
    by_registers = np.where(per_warp > 0, warps_by_registers // np.maximum(warps, 1), limits.blocks)
    bytes_each = np.asarray(shared, np.int64) + limits.shared_reserved
    bytes_each = -(-bytes_each // limits.shared_unit) * limits.shared_unit
    by_shared = np.where(bytes_each > 0, limits.shared_bytes // np.maximum(bytes_each, 1), limits.blocks)
    fitting = np.minimum(np.minimum(by_warps, by_registers), by_shared)
    return np.asarray(np.clip(fitting, 0, limits.blocks), np.int64)


def occupancy(
    limits: Multiprocessor | None,
    multiprocessors: int,
    grid: ArrayLike,
    block: ArrayLike,
    registers: ArrayLike,
    shared: ArrayLike,
) -> Occupancy:
    """Occupancy of kernels: `grid` and `block` are rows of three, `shared` is static and dynamic bytes together.

    >>> h100 = multiprocessor(9, 0)
    >>> found = occupancy(h100, 132, [[1320, 1, 1]], [[256, 1, 1]], [64], [0])
    >>> found.theoretical.item(), found.estimated.item()
    (0.5, 0.5)
    """
    blocks = np.asarray(grid, np.int64).reshape(-1, 3).prod(axis=1)
    threads = np.asarray(block, np.int64).reshape(-1, 3).prod(axis=1)
    if limits is None:
        unknown = np.full(len(threads), np.nan)
        return Occupancy(unknown, unknown)
    fitting = blocks_per_multiprocessor(limits, threads, registers, shared)
    whole = np.where(threads > 0, fitting * threads / limits.threads, np.nan)
    present = np.minimum(fitting, blocks / max(multiprocessors, 1))
    partly = np.where(threads > 0, present * threads / limits.threads, np.nan)
    return Occupancy(whole, partly if multiprocessors > 0 else np.full(len(threads), np.nan))
