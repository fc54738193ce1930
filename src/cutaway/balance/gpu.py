"""Accelerators as the bottleneck stack sees them: SMs, limits of an SM, bandwidth, peak rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cutaway.balance import toml
from cutaway.errors import CutawayError

GPUS = Path(__file__).with_name("gpus")


@dataclass(frozen=True)
class Gpu:
    """One device. `tflops` maps a type (`float32`, `float16`, `float8`) to the dense peak of matrices, `vector` to that of the
    ordinary units.

    >>> load("v100").peak("float32") / 1e12
    15.7
    """

    name: str
    sms: int
    bandwidth_gbs: float
    tflops: Mapping[str, float]
    max_threads_per_sm: int = 2048
    max_blocks_per_sm: int = 32
    registers_per_sm: int = 65536
    shared_per_sm: int = 65536
    launch_floor_us: float = 2.0

    def peak(self, dtype: str, matrix: bool = True) -> float:
        """Peak operations in a second."""
        if not matrix:
            return 1e12 * self.tflops.get("vector", self.tflops["float32"])
        return 1e12 * self.tflops.get(_storage(dtype), self.tflops["float32"])

    @property
    def bandwidth(self) -> float:
        return 1e9 * self.bandwidth_gbs

    def resident_blocks(self, threads: int, registers: int, shared: int) -> int:
        """Blocks of a kernel that fit on one SM at once."""
        if threads <= 0:
            return 1
        fit = min(self.max_blocks_per_sm, self.max_threads_per_sm // threads)
        if registers:
            fit = min(fit, self.registers_per_sm // (registers * threads))
        if shared:
            fit = min(fit, self.shared_per_sm // shared)
        return max(1, fit)

    def sm_utilisation(self, blocks: int, threads: int, registers: int = 0, shared: int = 0) -> float:
        """Share of the SMs that have work, on average over the waves of a grid.

        >>> load("v100").sm_utilisation(blocks=40, threads=256)
        0.5
        """
        if blocks <= 0:
            return 1.0
        slots = self.sms * self.resident_blocks(threads, registers, shared)
        full, rest = divmod(blocks, slots)
        tail = min(rest, self.sms) / self.sms
        waves = full + (1 if rest else 0)
        return (full + tail) / waves


def _storage(dtype: str) -> str:
    name = dtype.lower()
    if "float8" in name or "fp8" in name:
        return "float8"
    if "half" in name or "bfloat16" in name or "float16" in name:
        return "float16"
    return "float32"


def load(name: str) -> Gpu:
    """A GPU by the path of its TOML file or the name of one that comes with Cutaway."""
    path = Path(name)
    if not path.exists():
        path = GPUS / (name.lower().removesuffix(".toml") + ".toml")
    if not path.exists():
        known = ", ".join(sorted(p.stem for p in GPUS.glob("*.toml")))
        raise CutawayError(f"There is no GPU file {name!r}: give the path of a TOML file or one of {known}.")
    try:
        return Gpu(**toml.read(path))
    except (TypeError, ValueError) as error:
        raise CutawayError(f"{path} does not describe a GPU: {error}.") from error
