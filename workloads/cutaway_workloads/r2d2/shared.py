"""NumPy arrays in anonymous shared memory.

`RawArray` keeps its memory in an unlinked file whose descriptor travels when a process is started: nothing is
left behind in /dev/shm, whichever process is killed.
"""

from __future__ import annotations

import ctypes
import multiprocessing
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, SpawnContext
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Context = ForkServerContext | SpawnContext


def context() -> ForkServerContext:
    """Processes are forked from a small server with the actor's imports, never from a PyTorch process."""
    ctx = multiprocessing.get_context("forkserver")
    ctx.set_forkserver_preload(["cutaway_workloads.r2d2.actor"])
    return ctx


def learner_alive() -> bool:
    """Whether the process that started this one still lives; nobody may wait for a learner that was killed."""
    parent = multiprocessing.parent_process()
    return parent is None or parent.is_alive()


@dataclass(frozen=True)
class Field:
    """Name, shape and type of one array in a block of shared memory."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def nbytes(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


class Block:
    """Several arrays in one piece of shared memory, each at a cache line's start. Travels to children."""

    ALIGN = 64

    def __init__(self, ctx: Context, fields: list[Field]) -> None:
        self.fields = fields
        size = sum(-(-f.nbytes // self.ALIGN) * self.ALIGN for f in fields)
        self.memory = ctx.RawArray(ctypes.c_uint8, max(size, self.ALIGN))

    def arrays(self) -> dict[str, Array]:
        """Views by name; valid as long as the block lives."""
        flat = np.frombuffer(memoryview(self.memory).cast("B"), dtype=np.uint8)
        views, at = {}, 0
        for f in self.fields:
            views[f.name] = flat[at : at + f.nbytes].view(f.dtype).reshape(f.shape)
            at += -(-f.nbytes // self.ALIGN) * self.ALIGN
        return views
