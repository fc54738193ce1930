"""The machine is the limit: its cores, or the device."""

from __future__ import annotations

from cutaway.vocabulary import ACCELERATOR_API

from .. import advice
from ..evidence import Evidence
from ..sentences import how_busy_the_gpu_is
from ..text import NONE, percent, plural
from .rule import Rule

CROWDED = 1.5  # so many threads for each core want to run; a few more than cores do little harm


class Oversubscribed(Rule):
    """No gain is estimated: neither the wait for a core nor idle cores predicted it."""

    name = "cpu-oversubscription"
    label = "CPU OVERSUBSCRIBED"
    when = "1.5 threads or more for each core want to run, they wait 15 % of that time or more, and no other program is to blame"
    look = "process"
    picture = "tree"

    def holds(self, e: Evidence) -> bool:
        crowded = e.runnable >= CROWDED * e.cores
        return crowded and e.runqueue >= 0.15 and not e.shared

    def because(self, e: Evidence) -> str:
        who = f"{e.threads} threads in {plural(e.processes, 'process')}"
        return (
            f"{who} share {e.cores} cores: {e.runnable:.1f} want to run at once, and they wait {percent(e.runqueue)} of that time "
            f"for a core."
        )

    def advice(self, e: Evidence) -> str:
        return advice.fewer_at_once(e)


class TransferBound(Rule):
    name = "transfer-bound"
    label = "TRANSFER-BOUND"
    when = "a device copies memory 30 % of the time or more"
    look = "kernel"
    picture = "lanes"

    def holds(self, e: Evidence) -> bool:
        return e.copies >= 0.3

    def because(self, e: Evidence) -> str:
        copies = f"{percent(e.copies)} of the time the device copies memory"
        return f"{copies}{how_busy_the_gpu_is(e)}."

    def advice(self, e: Evidence) -> str:
        return "keep observations on the device, pin host memory, copy once per batch"

    def gain(self, e: Evidence) -> float | None:
        return e.copies / 2


class AcceleratorBound(Rule):
    name = "accelerator-bound"
    label = "ACCELERATOR-BOUND"
    when = "a device is busy 70 % of the time, or the main process is blocked half of the time while it is busy"
    look = "kernel"
    picture = "lanes"

    def holds(self, e: Evidence) -> bool:
        return (e.device_busy or 0.0) >= 0.7 or e.gpu_bound >= 0.5

    def because(self, e: Evidence) -> str:
        blocked = f"{percent(e.gpu_bound)} of {e.per} is blocked"
        return f"{blocked} while the device computes{how_busy_the_gpu_is(e)}."

    def advice(self, e: Evidence) -> str:
        operation = e.largest_in("wait") or NONE
        return f"make the kernels of {operation} cheaper: lower precision, fused kernels, compile"

    def gain(self, e: Evidence) -> float | None:
        return e.gpu_bound / 2 or None


class LaunchBound(Rule):
    name = "launch-bound"
    label = "LAUNCH-BOUND"
    when = "30 % or more in accelerator API calls"
    look = "transition"
    picture = "lanes"

    def holds(self, e: Evidence) -> bool:
        return e.layer.get(ACCELERATOR_API, 0.0) >= 0.3

    def because(self, e: Evidence) -> str:
        spent = f"{percent(e.layer[ACCELERATOR_API])} of {e.per} is spent in accelerator API calls"
        most = f"most of it in {e.largest_in(ACCELERATOR_API) or NONE}"
        return f"{spent}, {most}{how_busy_the_gpu_is(e)}."

    def advice(self, e: Evidence) -> str:
        return "launch less: larger batches, CUDA graphs, torch.compile(mode='reduce-overhead')"

    def gain(self, e: Evidence) -> float | None:
        return e.layer[ACCELERATOR_API] / 2
