"""The verdict: what the first rule that holds says, and what a reader must know before that."""

from __future__ import annotations

from collections.abc import Iterator

from . import counters
from .advice import amdahl
from .digest import Verdict
from .evidence import Evidence
from .progress import ALIKE
from .rules import COVERED, RULES, Rule
from .sentences import what_comes_next
from .text import percent

GROWING = "MEMORY GROWS"


def judge(e: Evidence) -> Verdict:
    """What the first rule that holds says."""
    rule = next(rule for rule in RULES if rule.holds(e))
    because = rule.because(e)
    return Verdict(
        rule=rule.name,
        label=rule.label,
        because=because[:1].upper() + because[1:],
        advice=rule.advice(e),
        speedup=_speedup(e, rule),
        given=rule.assumption(e),
        then=_what_comes_next(e, rule),
        look=rule.look,
        certain=rule.certain and not (e.shared and rule.blames_waits),
        at_most=rule.at_most,
        warnings=tuple(_warnings(e, rule)),
    )


def _speedup(e: Evidence, rule: Rule) -> float | None:
    """Where other programs used the cores, nothing is estimated."""
    gain = rule.gain(e)
    if not gain or e.shared:
        return None
    return amdahl(gain)


def _what_comes_next(e: Evidence, rule: Rule) -> str:
    if rule.thin or counters.replayed(e):
        return ""
    return what_comes_next(e, rule.about(e), rule.layer)


def _warnings(e: Evidence, rule: Rule) -> Iterator[str]:
    if e.failure:
        yield e.failure
    if e.shared:
        yield (
            f"MACHINE SHARED: other programs used {e.other_cores or 0:.1f} of {e.cores} cores, and this run waited "
            f"{percent(e.queued)} of the time for a core. Times are inflated, and other programs may have caused the waits; "
            f"measure again on a quiet machine."
        )
    # Where other programs come and go, the pace changes without the program.
    caused_by_others = e.shared and e.drift.endswith(f"{ALIKE}.")
    if e.drift and not caused_by_others and not rule.thin:
        yield f"DRIFT: {e.drift} See it with --over-time."
    grows = rule.begun  # imports and first calls take memory; that is no trend
    yield from (said for said in e.memory if grows or not said.startswith(GROWING))
    unnamed = _unnamed(e, rule)
    if unnamed > 1 - COVERED and rule.needs_names:
        yield f"{percent(unnamed)} of {e.per} has no name; the verdict is about the rest."


def _unnamed(e: Evidence, rule: Rule) -> float:
    """The share without a name; a verdict about a wait explains that wait, whether somebody named it or not."""
    if rule.blames_waits:
        explained = e.cell.get(("", "wait"), 0.0)
    else:
        explained = 0.0
    return e.unnamed - explained
