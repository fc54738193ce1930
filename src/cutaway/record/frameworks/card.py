"""What a card says about a framework. Every argument of a card, and of the rules on it (`cover.py`), has a name and a type, so
that a typing error fails where it is written.

Neither is a dataclass: importing what makes those would take a third of the time it takes to start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cutaway.record.frameworks.cover import Rule
from cutaway.record.imports import Any, when_imported


class Settings:
    """What a framework calls what the advice wants to change. An empty text means that it has no such setting.

    `workers` steps environments in `{n}` processes, `fewer` in as many as there are cores; `inference` serves more environments
    with each policy call; `update` makes the update cheaper. They hold for a `family` of algorithms (a key of `Card.families`), or
    for all; and from version `since` on, but no longer in version `until`.
    """

    def __init__(
        self,
        *,
        workers: str = "",
        fewer: str = "",
        inference: str = "",
        update: str = "",
        family: str = "",
        since: str = "",
        until: str = "",
    ) -> None:
        self.texts = {"workers": workers, "fewer": fewer, "inference": inference, "update": update}
        self.family, self.since, self.until = family, since, until


class Card:
    """All that Cutaway knows of a framework. The file it is in is called as the package it waits for."""

    def __init__(
        self,
        title: str,
        *,
        version: str = "",
        rules: Sequence[Rule] = (),
        modules: dict[str, Callable[[Any], None]] | None = None,
        loop: str = "",
        families: dict[str, str] | None = None,
        settings: Sequence[Settings] = (),
        distribution: str = "",
        headline: int = 0,
    ) -> None:
        self.title = title
        self.version = version
        """The version that the rules were written for."""
        self.rules = tuple(rules)
        self.modules = modules or {}
        """For what a rule cannot say: functions that get a module once it has been imported."""
        self.loop = loop
        """The package whose functions are on the stack while its training loop runs; empty: it has none of its own."""
        self.families = families or {}
        """Kinds of algorithms, by modules that are on the stack while one of them trains; names with spaces between them."""
        self.settings = tuple(settings)
        self.distribution = distribution
        """What it is installed as, if its package does not say its version and is called otherwise."""
        self.headline = headline
        """Where reports name its version: 1 first; 0 after those that have a number."""
        for one in self.settings:
            if one.family and one.family not in self.families:
                raise ValueError(f"{title}: there is no family {one.family!r} in its card")

    def install(self) -> None:
        """Wait for its modules."""
        for rule in self.rules:
            rule.install()
        for name, apply in self.modules.items():
            when_imported(name, apply)
