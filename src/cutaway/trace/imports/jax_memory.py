"""Reads memory profiles of JAX (`jax.profiler.save_device_memory_profile`): the buffers that are alive at one moment."""

from __future__ import annotations

import base64
import gzip
from pathlib import Path

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.format import DEVICE_DTYPE
from cutaway.trace.imports.recorded import HOST_DTYPE, Recorded
from cutaway.trace.imports.source import Limits, Progress, read_chunks
from cutaway.trace.memory_profile import read_profile
from cutaway.trace.writer import ProcessWriter

LARGEST = 700_000  # packed bytes: an entry of the log may have a megabyte


def read(path: Path, limits: Limits, progress: Progress) -> list[Recorded]:
    """The one process of a profile."""
    data = b"".join(read_chunks(path, limits, progress))
    try:
        held = read_profile(data)
    except ValueError as error:
        raise CutawayError(
            f"{path} cannot be read as a memory profile of JAX ({error}); copy it again."
        ) from None
    packed = gzip.compress(data)
    if len(packed) > LARGEST:
        raise CutawayError(
            f"{path} holds more stacks than Cutaway reads; save it from a smaller part of the program."
        )

    def write(writer: ProcessWriter) -> None:
        text = base64.b64encode(packed).decode()
        writer.log("device_profile", {"t": 0, "data": text})

    empty = np.zeros(0, HOST_DTYPE), np.zeros(0, DEVICE_DTYPE)
    process = Recorded(1, path.name, [""], *empty, more=write)
    process.counts = {"format": "jax-memory", "buffers": len(held)}
    return [process]
