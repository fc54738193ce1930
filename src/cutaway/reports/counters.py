"""What hardware counters say in a verdict: whether they can speak, and their sentences."""

from __future__ import annotations

from .evidence import Evidence
from .text import percent

FAR_FROM_PEAK = 0.3
NEAR_PEAK = 0.6
SMALL_KERNEL_US = 20  # about ten times what a launch costs


def replayed(e: Evidence) -> bool:
    """Whether each kernel ran alone to be counted: then no time is that of the training."""
    return e.use is not None and e.use.replayed


def far_from_peak(e: Evidence) -> bool:
    """Whether kernels reach little of the device's peaks."""
    return of_peak(e) < FAR_FROM_PEAK


def speak(e: Evidence) -> bool:
    """Whether counters tell how the device is used, and that is what matters."""
    if e.use is None or e.use.of_peak is None:
        return False
    return e.use.replayed or (e.device_busy or 0.0) >= 0.5


def of_peak(e: Evidence) -> float:
    """What kernels reach of the nearer peak; 0 if unknown."""
    if e.use:
        return e.use.of_peak or 0.0
    return 0.0


def near_peak(e: Evidence) -> str:
    """Which peak the kernels are near to, if any: `compute` or `dram`."""
    if of_peak(e) < NEAR_PEAK or e.use is None:
        return ""
    if (e.use.dram or 0.0) > (e.use.compute or 0.0):
        return "dram"
    return "compute"


def busy(e: Evidence) -> str:
    """How busy the device is, as the beginning of a sentence."""
    if e.device_busy is None or (e.use and e.use.replayed):
        return "while the GPU is busy,"
    return f"the GPU is busy {percent(e.device_busy)} of the time, but"


def peaks(e: Evidence) -> str:
    """What kernels reach of both peaks."""
    use = e.use
    assert use is not None
    compute = percent(use.compute or 0.0)
    memory = percent(use.dram or 0.0)
    return f"{compute} of its peak in compute and {memory} of its memory bandwidth"


def small(e: Evidence) -> str:
    """A sign that kernels are too small, if the counters show one."""
    use = e.use
    if use is None or use.mean_us is None or use.mean_us > SMALL_KERNEL_US:
        return ""
    return f": they are small, {use.mean_us:.0f} µs each"
