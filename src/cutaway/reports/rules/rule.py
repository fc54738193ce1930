"""What a rule of the verdict is. To add one: a class in a file of this folder, and its place in `RULES` (`__init__.py`)."""

from __future__ import annotations

from ..evidence import Evidence

ENDED = "if that wait ended"
HALVED = "if that took half the time"
COVERED = 0.8  # with less of the time named, the verdict says so


class Rule:
    """One verdict: when it holds, the evidence in a sentence, what to try, and what that could save.

    A rule looks only at `Evidence`. Where other programs used the cores, nothing is estimated.
    """

    name: str
    label: str
    when: str
    """When it holds, in words; docs/verdicts.md prints it."""
    given: str = HALVED
    """The assumption behind `gain`."""
    at_most = False
    """The gain is a bound: a wait that ends saves its own time and no more."""
    look = "callsite"
    """The view of `cutaway show --by` with the details."""
    picture = "bars"
    """The section of the page that proves it."""
    operation = ""
    """The built-in operation it is about."""
    layer = ""
    """The layer it is about."""
    thin = False
    """There is too little evidence for a verdict."""
    begun = True
    """The program came beyond its start-up."""
    certain = True
    """Whether a tool may act on it."""
    blames_waits = False
    """It explains a wait, whether somebody named that or not. Other programs may cause waits."""
    needs_names = True
    """It means little where much of the time has no name."""

    def holds(self, e: Evidence) -> bool:
        """Whether it speaks, if no rule before it does."""
        raise NotImplementedError

    def because(self, e: Evidence) -> str:
        """The evidence, in a sentence."""
        raise NotImplementedError

    def advice(self, e: Evidence) -> str:
        """What to try."""
        raise NotImplementedError

    def gain(self, e: Evidence) -> float | None:
        """The share of the main process's time that would disappear; None when it cannot be estimated honestly."""
        return None

    def assumption(self, e: Evidence) -> str:
        """The assumption behind the gain, where it depends on the run."""
        return self.given

    def about(self, e: Evidence) -> str:
        """The operation it is about."""
        return self.operation
