"""Verdicts by hardware counters. Where each kernel ran alone to read its counters, no time is that of the training: only
counters speak."""

from __future__ import annotations

from .. import counters
from ..evidence import Evidence
from .rule import Rule
from .thin import too_short


class ByCounters(Rule):
    """Counters tell how the device is used, and that is what matters."""

    look = "counter"
    needs_names = False

    def holds(self, e: Evidence) -> bool:
        if not counters.speak(e) or not self.counters_hold(e):
            return False
        return counters.replayed(e) or not too_short(e)

    def counters_hold(self, e: Evidence) -> bool:
        """Whether the counters are such."""
        raise NotImplementedError

    def because(self, e: Evidence) -> str:
        return f"{counters.busy(e)} its kernels reach {counters.peaks(e)}."


class FarFromPeak(ByCounters):
    name = "far-from-peak"
    label = "GPU FAR FROM ITS PEAK"
    when = (
        "hardware counters were recorded, the device is busy half of the time or more, and kernels reach less than 30 % of its "
        "peak in compute and in memory bandwidth"
    )

    def counters_hold(self, e: Evidence) -> bool:
        return counters.far_from_peak(e)

    def because(self, e: Evidence) -> str:
        return f"{counters.busy(e)} its kernels reach {counters.peaks(e)}{counters.small(e)}."

    def advice(self, e: Evidence) -> str:
        return (
            "give each kernel more work: larger batches, more environments; fuse small kernels with torch.compile, or launch them "
            "together as a CUDA graph"
        )


class BandwidthBound(ByCounters):
    name = "bandwidth-bound"
    label = "DEVICE MEMORY-BOUND"
    when = (
        "hardware counters were recorded, and kernels use 60 % or more of the bandwidth of device memory, and more of it than "
        "of compute"
    )

    def counters_hold(self, e: Evidence) -> bool:
        return counters.near_peak(e) == "dram"

    def advice(self, e: Evidence) -> str:
        return (
            "move fewer bytes: bfloat16, and torch.compile to fuse elementwise kernels"
        )


class ComputeBound(ByCounters):
    name = "compute-bound"
    label = "DEVICE COMPUTE-BOUND"
    when = "hardware counters were recorded, and kernels reach 60 % or more of the peak in compute"

    def counters_hold(self, e: Evidence) -> bool:
        return counters.near_peak(e) == "compute"

    def advice(self, e: Evidence) -> str:
        return "compute less: a smaller network, lower precision on the tensor cores, fewer passes over the batch"


class CountersOnly(Rule):
    name = "counters-only"
    label = "NO VERDICT"
    when = "hardware counters were read by running each kernel alone, so that times are not those of the training"
    look = "counter"
    needs_names = False

    def holds(self, e: Evidence) -> bool:
        return counters.replayed(e)

    def because(self, e: Evidence) -> str:
        return "kernels ran alone, several times each, to read their counters: no time here is that of the training."

    def advice(self, e: Evidence) -> str:
        return "record the training itself with `cutaway run`; see the counters with --by counter"
