"""Operations, iterations and steps without code changes: a card for each framework (`cards/`), loaded when its package is about to
be imported. The rules of a card say which methods are which operation; `hooks.py` carries them out. What takes code of its own, as
the backends do, lies in a file beside this one.

Libraries may bring such rules themselves (`entry_points.py`). What no rule names may still behave like an environment or a replay
memory (`behaviour.py`). Inside an operation of the user's own nothing automatic is opened: the user's name wins; steps and
iterations are counted all the same.
"""

from __future__ import annotations

import sys
from functools import partial

from cutaway import _recorder
from cutaway.record.frameworks import cards, entry_points, hooks
from cutaway.record.frameworks.card import Card
from cutaway.record.imports import when_sought
from cutaway.record.options import Options

# Of environments, replay memories, tree searches and networks.
METHODS = (
    "step",
    "advance",
    "sample",
    "search",
    "getActionProb",
    "backpropagate",
    "predict",
    "act",
    "choose_action",
    "get_action",
    "pick_action",
    "sample_action",
    "select_action",
)
CLOUDPICKLES = "cloudpickle.cloudpickle ray.cloudpickle.cloudpickle joblib.externals.cloudpickle.cloudpickle"


def install(options: Options) -> None:
    """Wait for the frameworks we know, or instrument them at once if they are imported already."""
    hooks.Rule(CLOUDPICKLES, "", "_class_setstate", on_exit=hooks.revisit).install()
    installed: list[Card] = []
    for package in cards.packages():
        when_sought(package, partial(_use, package, installed))
    entry_points.install()
    _watch(options.simulation)


def _use(package: str, installed: list[Card]) -> None:
    card = cards.load(package)
    if card not in installed:
        installed.append(card)
        card.install()


def _watch(simulation: tuple[str, ...]) -> None:
    """Look at classes with these methods when they are made. The file that knows them is loaded for the first of them."""
    own = {name.rpartition(".")[2] for name in simulation}
    _recorder.watch_classes(tuple(map(sys.intern, own.union(METHODS))), _consider)
    if simulation or "numpy" in sys.modules:
        from cutaway.record.frameworks import behaviour

        behaviour.seek(simulation)
        behaviour.consider_all()


def _consider(cls: type) -> None:
    from cutaway.record.frameworks import behaviour

    behaviour.consider(cls)


def remove() -> None:
    """Put the original functions back."""
    _recorder.watch_classes((), None)
    if behaviour := sys.modules.get(f"{__name__}.behaviour"):
        behaviour.remove()
    _recorder.uncover_calls()
    hooks.restore()
