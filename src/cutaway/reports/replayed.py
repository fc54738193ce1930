"""An estimate of the verdict, replayed: what halving an operation gains where others wait for it, or nobody does."""

from __future__ import annotations

from dataclasses import replace

from cutaway.analysis.run import Run
from cutaway.analysis.whatif.build import build
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.errors import CutawayError
from cutaway.vocabulary import OPERATIONS

from .digest import Digest, Verdict
from .rules import BY_NAME, HALVED

MOST_EVENTS = 200_000
"""So much of a run is replayed for a verdict, that `show` stays fast."""
_LARGEST = 20_000_000


def replayed(run: Run, digest: Digest, verdict: Verdict) -> Verdict:
    """Of a run whose threads wait for each other: the share of the main process says little there. A replay that does not
    resemble the run takes the estimate away. What cannot be replayed at all (devices, a run without
    iterations) keeps the share's."""
    operation = BY_NAME[verdict.rule].operation
    estimated = verdict.speedup is not None and verdict.given == HALVED
    alone = len(digest.processes) < 2 and len(digest.spent.threads) < 2
    if (
        not estimated
        or operation not in OPERATIONS
        or alone
        or digest.trust.events > _LARGEST
    ):
        return verdict
    try:
        known = WhatIf(run, build(run, MOST_EVENTS))
    except CutawayError:
        return verdict
    try:
        return replace(verdict, speedup=known.halved(operation))
    except CutawayError:
        return replace(verdict, speedup=None)
