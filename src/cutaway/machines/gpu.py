"""What a GPU can do at best: its peaks, its bandwidth, and what its SMs hold at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cutaway.machines.files import read_toml
from cutaway.machines.multiprocessor import Multiprocessor, multiprocessor

GPUS = Path(__file__).with_name("gpus")
_USUAL = Multiprocessor(2048, 32, 64 << 10, 256, 0)  # where nothing else is said


@dataclass(frozen=True)
class Gpu:
    """One device. `tflops` maps a type (`float32`, `float16`, `float8`) to the dense peak of matrices, `vector` to that of the
    ordinary units. What an SM holds follows from NVIDIA's compute capability (`"8.0"`), unless it is given.

    >>> load("v100").peak("float32") / 1e12
    15.7
    """

    name: str
    sms: int
    bandwidth_gbs: float
    tflops: Mapping[str, float]
    compute_capability: str = ""
    max_threads_per_sm: int | None = None
    max_blocks_per_sm: int | None = None
    registers_per_sm: int = 65536
    shared_per_sm: int | None = None
    launch_floor_us: float = 2.0

    def peak(self, dtype: str, matrix: bool = True) -> float:
        """Peak operations in a second."""
        kind = _kind(dtype) if matrix else "vector"
        return 1e12 * self.tflops.get(kind, self.tflops["float32"])

    def __post_init__(self) -> None:
        if self.compute_capability:
            _of_capability(
                self.compute_capability
            )  # a wrong one is an error of the file

    @property
    def bandwidth(self) -> float:
        """Bytes in a second."""
        return 1e9 * self.bandwidth_gbs

    @cached_property
    def sm(self) -> Multiprocessor:
        """What one SM holds at once."""
        known = _USUAL
        if self.compute_capability:
            known = _of_capability(self.compute_capability)
        return known._replace(
            threads=self.max_threads_per_sm or known.threads,
            blocks=self.max_blocks_per_sm or known.blocks,
            shared_bytes=self.shared_per_sm or known.shared_bytes,
        )

    def resident_blocks(self, threads: int, registers: int, shared: int) -> int:
        """Blocks of a kernel that fit on one SM at once."""
        if threads <= 0:
            return 1
        fit = min(self.sm.blocks, self.sm.threads // threads)
        if registers:
            fit = min(fit, self.registers_per_sm // (registers * threads))
        if shared:
            fit = min(fit, self.sm.shared_bytes // shared)
        return max(1, fit)

    def sm_utilisation(
        self, blocks: int, threads: int, registers: int = 0, shared: int = 0
    ) -> float:
        """Share of the SMs that have work, on average over the waves of a grid.

        >>> load("v100").sm_utilisation(blocks=40, threads=256)
        0.5
        """
        if blocks <= 0:
            return 1.0
        full, rest = divmod(
            blocks, self.sms * self.resident_blocks(threads, registers, shared)
        )
        return (full + min(rest, self.sms) / self.sms) / (full + (1 if rest else 0))


def _kind(dtype: str) -> str:
    """The key of `tflops` for a type as frameworks write it."""
    written = dtype.lower()
    if "float8" in written or "fp8" in written:
        return "float8"
    if "half" in written or "float16" in written:
        return "float16"
    return "float32"


def _of_capability(text: str) -> Multiprocessor:
    major, _, minor = text.partition(".")
    known = multiprocessor(int(major), int(minor or 0))
    if known is None:
        raise ValueError(f"compute capability {text} is not known")
    return known


def load(name: str) -> Gpu:
    """A GPU by the path of its TOML file or the name of one that comes with Cutaway."""
    return read_toml(name, GPUS, "GPU", Gpu)
