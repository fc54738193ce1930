"""An estimate of the verdict, replayed: where others wait for it, or nobody does, the share of the main process says little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from cutaway.analysis.run import Run
from cutaway.analysis.whatif.build import build
from cutaway.analysis.whatif.changes import Change, Faster
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.errors import CutawayError
from cutaway.vocabulary import OPERATIONS

from .digest import Digest, Verdict
from .rules import BY_NAME, HALVED

MOST_EVENTS = 200_000
"""So much of a run is replayed for a verdict, that `show` stays fast."""
_LARGEST = 20_000_000


@dataclass(frozen=True)
class Bound:
    """What is replayed instead of a bound by a wait. `at_most`: the advice may gain less than what is replayed."""

    given: str
    at_most: bool
    changes: Callable[[WhatIf], list[Change]]


def _half(operation: str) -> Callable[[WhatIf], list[Change]]:
    return lambda known: [Faster(operation, 2.0)]


def _even(known: WhatIf) -> list[Change]:
    """All workers do the mean of what they do."""
    work = {name: own for name, own in known.others().items() if own}
    mean = sum(work.values()) / max(1, len(work))
    return [Faster(name, own / mean) for name, own in work.items()]


def _others_twice(known: WhatIf) -> list[Change]:
    return [Faster(name, 2.0) for name, own in known.others().items() if own]


BOUNDS = {
    "straggler": Bound("if their work were even", False, _even),
    "simulation-bound-workers": Bound(
        "if it took half the time", True, _half("simulation")
    ),
    "inference-bound-server": Bound(
        "if it took half the time", True, _half("inference")
    ),
    "trainer-starved": Bound("if samples came twice as fast", False, _others_twice),
}


def replayed(run: Run, digest: Digest, verdict: Verdict) -> Verdict:
    """Of a run whose threads wait for each other. A replay that does not resemble the run takes an estimate away. What cannot be
    replayed at all (devices, a run without iterations) keeps the share's, and a bound stays."""
    alone = len(digest.processes) < 2 and len(digest.spent.threads) < 2
    if verdict.speedup is None or alone or digest.trust.events > _LARGEST:
        return verdict
    bound = BOUNDS.get(verdict.rule)
    operation = BY_NAME[verdict.rule].operation
    halved = verdict.given == HALVED and operation in OPERATIONS
    if not bound and not halved:
        return verdict
    try:
        known = WhatIf(run, build(run, MOST_EVENTS))
    except CutawayError:
        return verdict
    try:
        if bound:
            return _instead(verdict, bound, known)
        return replace(verdict, speedup=known.halved(operation))
    except CutawayError:
        if bound:
            return verdict
        return replace(verdict, speedup=None)


def _instead(verdict: Verdict, bound: Bound, known: WhatIf) -> Verdict:
    """The replay's answer; the verdict's own where there is nobody to change."""
    changes = bound.changes(known)
    if not changes:
        return verdict
    speedup = known.predict(changes, bound.given).speedup
    return replace(verdict, speedup=speedup, given=bound.given, at_most=bound.at_most)
