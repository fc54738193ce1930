"""What a card says about a framework. Every argument of a card, and of the rules on it (`hooks.py`), has a name and a type, so
that a typing error fails where it is written.

Neither is a dataclass: importing what makes those would take a third of the time it takes to start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any, when_imported


class Settings:
    """What a framework calls what the advice wants to change. An empty text means that it has no such setting.

    Environments in `{n}` processes (`fewer`: in as many as there are cores; `one_process`: in none), more environments for each
    policy call (`inference`). A cheaper update: fewer, larger minibatches (`update`) or fewer of them (`passes`) where it passes
    over a rollout, fewer updates (`rarer`) where batches are drawn from a replay memory. They hold from version `since` on, and no
    longer in version `until`.
    """

    def __init__(
        self,
        *,
        workers: str = "",
        fewer: str = "",
        one_process: str = "",
        inference: str = "",
        update: str = "",
        passes: str = "",
        rarer: str = "",
        tail: str = "",
        more_rollout: str = "",
        idle_rollout: str = "",
        cheaper_sync: str = "",
        fresher: str = "",
        since: str = "",
        until: str = "",
    ) -> None:
        self.texts = {
            "workers": workers,
            "fewer": fewer,
            "one_process": one_process,
            "inference": inference,
            "update": update,
            "passes": passes,
            "rarer": rarer,
            "tail": tail,
            "more_rollout": more_rollout,
            "idle_rollout": idle_rollout,
            "cheaper_sync": cheaper_sync,
            "fresher": fresher,
        }
        self.since, self.until = since, until

    def hold_for(self, version: str) -> bool:
        """Whether a version has them. One that is not known counts as the newest."""
        here = _numbers(version)
        if not here:
            return not self.until
        return here >= _numbers(self.since) and (
            not self.until or here < _numbers(self.until)
        )


def _numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> _numbers("2.38.0rc1"), _numbers("")
    ((2, 38), ())
    """
    numbers: list[int] = []
    for part in version.split("."):
        if not part.isdigit():
            break
        numbers.append(int(part))
    return tuple(numbers)


class Card:
    """Everything Cutaway knows about a framework. Its file has the name of the package it waits for."""

    def __init__(
        self,
        title: str,
        *,
        version: str = "",
        rules: Sequence[Rule] = (),
        modules: Mapping[str, Callable[[Any], None]] | None = None,
        loop: str = "",
        settings: Sequence[Settings] = (),
        headline: int = 0,
    ) -> None:
        self.title = title
        self.version = version
        """The version that the rules were written for."""
        self.rules = tuple(rules)
        self.modules = modules or {}
        """For what a rule cannot express: functions that are given a module once it has been imported."""
        self.loop = loop
        """The package whose functions are on the stack while its training loop runs; empty: it has none of its own."""
        self.settings = tuple(settings)
        self.headline = headline
        """Where reports name its version: 1 first; 0 after those that have a number."""

    def setting(self, name: str, version: str = "") -> str:
        """What a version of it calls a setting (`name` is an argument of `Settings`); empty if it has none."""
        found = (one.texts[name] for one in self.settings if one.hold_for(version))
        return next(filter(None, found), "")

    def install(self) -> None:
        """Wait for its modules."""
        for rule in self.rules:
            rule.install()
        for name, apply in self.modules.items():
            when_imported(name, apply)
