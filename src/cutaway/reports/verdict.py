"""The verdict: what the first rule that holds says, and what a reader must know before that."""

from __future__ import annotations

from . import counters
from .advice import amdahl
from .digest import Verdict
from .evidence import Evidence
from .progress import ALIKE
from .rules import COVERED, RULES
from .sentences import what_comes_next
from .text import percent

NO_CAVEAT = (
    "counters-only",
    "far-from-peak",
    "bandwidth-bound",
    "compute-bound",
    "thin-failed",
    "thin-time",
    "thin-operations",
    "thin-shared",
    "one-jitted-call",
    "unnamed",
)
BY_WAITS = (
    "workers-cost",
    "straggler",
    "simulation-bound-workers",
    "inference-bound-server",
    "gil",
    "waiting",
)


def judge(e: Evidence) -> Verdict:
    """What the first rule that holds says, and what a reader must know before that."""
    rule = next(rule for rule in RULES if rule.holds(e))
    gain, because = rule.gain(e), rule.because(e)
    thin = rule.name.startswith("thin")
    return Verdict(
        rule=rule.name,
        label=rule.label,
        because=because[:1].upper() + because[1:],
        advice=rule.advice(e),
        speedup=amdahl(gain) if gain and not e.shared else None,
        given=rule.given if isinstance(rule.given, str) else rule.given(e),
        then="" if thin or counters.replayed(e) else what_comes_next(e, rule.name),
        look=rule.look,
        certain=not thin
        and rule.name != "unnamed"
        and not (e.shared and rule.name in BY_WAITS),
        at_most=rule.at_most,
        warnings=_warnings(e, rule.name),
    )


def _warnings(e: Evidence, rule: str) -> tuple[str, ...]:
    out = [e.failure] if e.failure else []
    if e.shared:
        out.append(
            f"MACHINE SHARED: other programs used {e.other_cores or 0:.1f} of {e.cores} cores, and this run waited "
            f"{percent(e.queued)} of the time for a core. Times are too long, and other programs may have caused the waits; "
            f"measure again on a quiet machine."
        )
    # Where other programs come and go, the pace changes without the program.
    others = e.shared and e.drift.endswith(f"{ALIKE}.")
    if e.drift and not others and not rule.startswith("thin"):
        out.append(f"DRIFT: {e.drift} See it with --over-time.")
    out += e.memory
    # A verdict about a wait explains that wait, whether somebody named it or not.
    unnamed = e.unnamed - (e.cell.get(("", "wait"), 0.0) if rule in BY_WAITS else 0.0)
    if unnamed > 1 - COVERED and rule not in NO_CAVEAT:
        out.append(
            f"{percent(unnamed)} of {e.per} has no name; the verdict is about the rest."
        )
    return tuple(out)
