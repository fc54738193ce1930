"""Hooks for a library of yours: which of its methods are which operation. Public: it changes only with notice.

Put the hooks into a file that an entry point of the group `cutaway.frameworks` names (docs/frameworks.md). It is imported only in a
program that is being recorded, after the first import of your package:

    import mylib
    from cutaway.instrument import instrument, instrument_family

    def install():
        instrument_family(mylib.Game, ["advance"], "simulation", steps=1)
        instrument(mylib.Learner, "learn", "backpropagation", update=True, iteration=True)

Cutaway puts the methods back when the recording ends. Everything below `cutaway.record` is private and may change.
"""

from __future__ import annotations

from cutaway.record.frameworks import hooks as _hooks

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Any

    Steps = int | str | Callable[[Any, Any], int]

__all__ = ["instrument", "instrument_family", "instrument_items"]


def instrument(
    owner: type | ModuleType,
    name: str,
    operation: str | None,
    *,
    steps: Steps = 0,
    iteration: bool = False,
    update: bool = False,
    unless: Callable[[], Any] | None = None,
) -> None:
    """Open `operation` around every call of the Python function `name` of a class or module.

    `operation` is a built-in name, or None to only count. `steps` are the environment steps of a call: a number, the name of an
    attribute of `self`, or a function of `self` and the result. `iteration`: a call begins an iteration. `update`: a call changes
    the weights, so the next environment step begins an iteration. If `unless()` is true, the call is not recorded.

    >>> class Learner:
    ...     def learn(self):
    ...         return "learned"
    >>> instrument(Learner, "learn", "backpropagation", update=True)
    >>> Learner().learn()
    'learned'
    """
    options = _options(steps, iteration, update, unless)
    _hooks.instrument(owner, name, operation, **options)


def instrument_family(
    base: type,
    names: Sequence[str],
    operation: str | None,
    *,
    leave: Callable[[type], bool] | None = None,
    steps: Steps = 0,
    iteration: bool = False,
    update: bool = False,
    unless: Callable[[], Any] | None = None,
) -> None:
    """Instrument methods in a class and in every subclass, including those defined later.

    Classes for which `leave(cls)` is true stay as they are. The other arguments are those of `instrument`.

    >>> class Game:
    ...     def advance(self):
    ...         return 1.0
    >>> instrument_family(Game, ["advance"], "simulation", steps=1)
    >>> class Chess(Game):
    ...     def advance(self):
    ...         return 2.0
    >>> Chess().advance()
    2.0
    """
    options = _options(steps, iteration, update, unless)
    _hooks.instrument_family(base, names, operation, leave, **options)


def instrument_items(
    owner: type,
    name: str,
    operation: str | None,
    *,
    steps: Steps = 0,
    iteration: bool = False,
    update: bool = False,
    unless: Callable[[], Any] | None = None,
) -> None:
    """Open `operation` while the generator function `name` makes an item, not while the item is used.

    >>> class Loader:
    ...     def batches(self):
    ...         yield from (1, 2)
    >>> instrument_items(Loader, "batches", "replay")
    >>> list(Loader().batches())
    [1, 2]
    """
    options = _options(steps, iteration, update, unless)
    _hooks.instrument_items(owner, name, operation, **options)


def _options(
    steps: Steps, iteration: bool, update: bool, unless: Callable[[], Any] | None
) -> dict[str, Any]:
    return {"steps": steps, "iteration": iteration, "update": update, "unless": unless}
