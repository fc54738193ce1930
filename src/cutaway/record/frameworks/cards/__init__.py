"""One card a framework. To add one, add a file here: it is called as the package it is for, and defines `CARD` (`card.py`).

A card is loaded when its package is about to be imported, in the traced process; and by the advice, which names the framework's
own settings. So a card may use the standard library and Cutaway's recorder, nothing else.
"""

from __future__ import annotations

import importlib
import os

from cutaway.record.frameworks.card import Card


def packages() -> list[str]:
    """The packages that have a card, without loading any."""
    files = os.listdir(os.path.dirname(__file__))
    return sorted(
        name[:-3] for name in files if name.endswith(".py") and not name.startswith("_")
    )


def load(package: str) -> Card:
    """The card of a package. Two packages may share one."""
    card: Card = importlib.import_module(f"{__name__}.{package}").CARD
    return card


def every() -> dict[str, Card]:
    """All cards by package, for readers of a run."""
    return {package: load(package) for package in packages()}
