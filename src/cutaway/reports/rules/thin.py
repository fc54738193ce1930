"""Too little was recorded for a verdict, or the wrong part; and a run that was stuck."""

from __future__ import annotations

from .. import advice
from ..evidence import Evidence
from ..sentences import counted, waits_for_workers
from ..text import duration, percent
from .rule import Rule

ENOUGH_SECONDS = 1.0
ENOUGH_UNITS = {"iteration": 3, "step": 30, "run": 0}
MANY_UNITS = {"iteration": 5, "step": 300}  # so many make up for less than a second
LEAST_SECONDS = 0.1
TRAINING, ROLLOUT = "training program", "rollout program"
WORTH_A_WORD = 0.05


def too_short(e: Evidence) -> bool:
    """Whether the steady state is too short for a verdict about time."""
    many = e.unit in MANY_UNITS and e.units >= MANY_UNITS[e.unit]
    if e.seconds < LEAST_SECONDS or e.units < ENOUGH_UNITS.get(e.unit, 0):
        return True
    return e.seconds < ENOUGH_SECONDS and not many


class Thin(Rule):
    """There is too little evidence."""

    label = "NO VERDICT"
    thin = True
    certain = False
    needs_names = False


class Hang(Rule):
    name = "hang"
    label = "STUCK"
    when = "the main process was killed inside one call that had taken more than 3 s and a quarter of its life"
    picture = "lanes"

    def holds(self, e: Evidence) -> bool:
        return bool(e.hang)

    def because(self, e: Evidence) -> str:
        return f"{e.hang}."

    def advice(self, e: Evidence) -> str:
        return "find out what that call waits for; everything before it is recorded"


class Failed(Thin):
    name = "thin-failed"
    when = "the program failed before any operation began"
    look = "line"
    begun = False

    def holds(self, e: Evidence) -> bool:
        named = [name for name, share in e.operation.items() if name and share]
        return bool(e.failure) and not named

    def because(self, e: Evidence) -> str:
        return "the program ended before it stepped an environment or ran a network."

    def advice(self, e: Evidence) -> str:
        return advice.record_again(e)


class Short(Thin):
    name = "thin-time"
    when = "fewer than 3 iterations (or 30 steps), less than 1 s with fewer than 5 (or 300 steps), or less than 0.1 s"
    look = "operation"

    def holds(self, e: Evidence) -> bool:
        return too_short(e)

    def because(self, e: Evidence) -> str:
        recorded = f"{duration(e.seconds * 1e9)}{counted(e)}"
        return f"only {recorded} of steady state recorded: too little for a verdict."

    def advice(self, e: Evidence) -> str:
        return advice.record_again(e)


class WithoutOperations(Thin):
    name = "thin-operations"
    when = "70 % or more is outside any operation and not waiting, or only device work was recorded"
    look = "line"

    def holds(self, e: Evidence) -> bool:
        return not e.operation or (e.unnamed >= 0.7 and e.waits < 0.5)

    def because(self, e: Evidence) -> str:
        if not e.unnamed:
            return "no time on the CPU was recorded."
        return f"{percent(e.unnamed)} of the time is outside any operation."

    def advice(self, e: Evidence) -> str:
        return advice.name_it(e)


class OthersHaveTheCores(Thin):
    """Whatever the run does on a machine of its own."""

    def advice(self, e: Evidence) -> str:
        return "record again on a quiet machine"


class WorkersWithoutCores(OthersHaveTheCores):
    name = "thin-workers"
    when = (
        "30 % or more waits for workers, which themselves wait half of that time or more (a quarter, where steps take 200 µs or "
        "more) for cores that other programs have"
    )
    look = "process"

    def holds(self, e: Evidence) -> bool:
        if e.blocked is None or e.blocked.share < 0.3:
            return False
        return e.workers_lack_cores

    def because(self, e: Evidence) -> str:
        waits = waits_for_workers(e).removesuffix(".")
        return (
            f"{waits}; these wait {percent(e.workers_queued)} of the time for a core that others have: what the run does on "
            f"a machine of its own cannot be told."
        )


class Starved(OthersHaveTheCores):
    name = "thin-starved"
    when = "none of the above, and the run waited 60 % of the time or more for cores that other programs have"
    look = "process"

    def holds(self, e: Evidence) -> bool:
        return e.starved

    def because(self, e: Evidence) -> str:
        return f"the run had a core for {percent(1 - e.queued)} of the time only, and no operation dominates {e.per}."


class Shared(OthersHaveTheCores):
    name = "thin-shared"
    when = "other programs took the cores, and half of the time that they left is spent waiting"
    look = "wait"

    def holds(self, e: Evidence) -> bool:
        return e.waits >= 0.5

    def because(self, e: Evidence) -> str:
        waits = percent(e.layer["wait"])
        return (
            f"{waits} of {e.per} waits, and {percent(e.queued)} wants a core that others have: what the run does on a machine "
            f"of its own cannot be told."
        )


class OneJittedCall(Rule):
    name = "one-jitted-call"
    label = "ONE JITTED CALL"
    when = "40 % or more is a compiled JAX function that holds a whole training or rollout (20 % or more in a program without iterations)"
    look = "line"
    picture = "flame"
    needs_names = False

    def holds(self, e: Evidence) -> bool:
        if "jax" not in e.libraries:
            return False
        return _jitted(e) >= 0.4 or (e.unit == "run" and e.one_call[1] >= 0.2)

    def because(self, e: Evidence) -> str:
        function, share = e.one_call
        which = "" if _jitted(e) else f" ({function})"
        what = f"one compiled call{which}"
        if ROLLOUT in e.operation:
            what = "a compiled rollout, policy and environment in one loop"
            both = e.operation.get(TRAINING, 0.0)
            if both >= WORTH_A_WORD:
                what += f" ({percent(both)} a wait for it and the update together)"
        return (
            f"{percent(_jitted(e) or share)} of {e.per} is {what}: its parts run inside XLA, where Cutaway "
            f"cannot see them."
        )

    def advice(self, e: Evidence) -> str:
        look = "put jax.named_scope around the parts, record with jax.profiler.trace(DIR) and open it with `cutaway import`"
        if e.operation.get(TRAINING, 0.0) >= WORTH_A_WORD and ROLLOUT in e.operation:
            return f"record once with jax.block_until_ready after the rollout, which tells it from the update; or {look}"
        if ROLLOUT in e.operation:
            return look
        return f"{look}; or jit one update and call it in a Python loop"


def _jitted(e: Evidence) -> float:
    """Share of compiled functions that hold a whole training, or collect a whole rollout."""
    return e.operation.get(TRAINING, 0.0) + e.operation.get(ROLLOUT, 0.0)
