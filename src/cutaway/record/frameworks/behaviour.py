"""Environments and replay memories that no library's rules name: a class is what it behaves like.

A class with `step` and `reset` is watched while it is called the first few times. If it returns a reward and whether the episode
is over, it is an environment, whatever it computes with: floats, NumPy, torch, JAX. If not, its method is put back as it was. In
doubt nothing is named; `cutaway show` asks. A class that stores and has `sample` is a replay memory if what it draws is a batch.
A class that is called a tree search is one: its network is `inference`, everything else it does is `search`. A class that learns in
`train` and answers in `predict` is a network with what it needs around it. A class that chooses actions, and is told of an action and
its reward to learn from, is an agent without a network: a table, say.
"""

from __future__ import annotations

import json
import sys
from types import FunctionType

from cutaway import _recorder
from cutaway.record.frameworks import hooks
from cutaway.record.frameworks.evidence import (
    Evidence,
    is_batch,
    is_traced,
    look_at,
    width,
)
from cutaway.record.imports import Any, when_imported

STEPS = ("step", "advance")
STORES = ("add", "store", "push", "append", "extend", "remember", "put", "insert")
PRIORITIES = (
    "update_priorities",
    "update_priority",
    "set_priorities",
    "set_priority",
    "batch_update",
)
# Words in the names of classes that keep experience.
MEMORIES = ("buffer", "memory", "replay", "storage")
# Words in the names of classes that search a tree of games, and how their methods for that are called.
TREES = ("mcts", "treesearch", "tree_search")
SEARCHES = ("search", "run", "simulate", "getActionProb", "get_action_prob", "plan")
# How agents choose, and how their methods begin that learn from what those parameters tell.
CHOOSES = (
    "act",
    "choose_action",
    "get_action",
    "pick_action",
    "sample_action",
    "select_action",
)
LEARNS = ("learn", "train", "update")
REWARDS = {"reward", "rewards", "rew", "r"}
ACTIONS = {"action", "actions", "act", "a"}
# What computes gradients says itself when it learns.
NETWORKS = ("torch", "jax", "tensorflow")
# They have `step` or `sample`, and are known to be something else.
OTHERS = {
    "Module",
    "Optimizer",
    "LRScheduler",
    "_LRScheduler",
    "Distribution",
    "Space",
    "DataLoader",
    "tqdm",
}
# What such classes are recognised by.
MARKS = (
    *STEPS,
    "sample",
    "search",
    "getActionProb",
    "backpropagate",
    "predict",
    *CHOOSES,
)
MOST_CALLS = 8
_PIECEWISE = (
    0x20 | 0x80 | 0x200
)  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR of the module inspect

_missing: set[str] = set()  # what --simulation names and nobody has defined yet


def seek(simulation: tuple[str, ...]) -> None:
    """Wait for what the user says is the simulation."""
    _missing.update(simulation)
    for name in simulation:
        when_imported(name.rpartition(".")[0], _take_function)


def consider_all() -> None:
    """Look at the classes there are."""
    for cls in _all_classes():
        consider(cls)


def remove() -> None:
    """Say what was asked for in vain."""
    for name in sorted(_missing):
        _recorder.note(
            f"--simulation {name} was not found; write it as MODULE.CLASS.METHOD or MODULE.FUNCTION"
        )
    _missing.clear()
    hooks.watched.clear()


def consider(cls: type) -> None:
    """Cover or watch what a new class does, if it may be an environment or a memory."""
    members = vars(cls)
    for name in tuple(_missing):
        method = name.rpartition(".")[2]
        if type(members.get(method)) is FunctionType and name in _names_of(cls, method):
            _missing.discard(name)
            _environment(cls, method, None, Evidence(0, "you said so: --simulation"))
    if any(base.__name__ in OTHERS for base in cls.__mro__):
        return
    for name in STEPS:
        if _is_plain(members.get(name)) and _may_step(cls, members[name]):
            _Watch(cls, name, look_at, _environment)
    if _is_plain(members.get("sample")):
        _consider_memory(cls)
    if any(word in cls.__name__.lower() for word in TREES):
        _tree_search(cls)
    if _is_plain(members.get("predict")) and _is_plain(members.get("train")):
        _decide(cls, "predict", None, "inference")
        _log(cls, "predict", "inference", Evidence(0, "it has train and predict"))
    if not any(name in sys.modules for name in NETWORKS):
        _consider_agent(cls)


def _may_step(cls: type, method: Any) -> bool:
    """It can be reset, or at least takes an action: some environments reset themselves only."""
    return callable(getattr(cls, "reset", None)) or method.__code__.co_argcount > 1


def _is_plain(method: Any) -> bool:
    """Neither a generator nor a coroutine, whose calls return at once."""
    return type(method) is FunctionType and not method.__code__.co_flags & _PIECEWISE


def _consider_memory(cls: type) -> None:
    """A data set for offline learning is filled once and then only drawn from: its name must say what it is."""
    if any(word in cls.__name__.lower() for word in MEMORIES):
        _memory(cls, "sample", None, Evidence(0, "it draws, and its name says so"))
    elif any(type(vars(cls).get(name)) is FunctionType for name in STORES):
        _Watch(cls, "sample", is_batch, _memory)


def _consider_agent(cls: type) -> None:
    """Nothing marks what an agent without a network does: it must choose, and its parameters must say what it learns from."""
    chooses = [name for name in CHOOSES if _is_plain(vars(cls).get(name))]
    learns = [name for name in vars(cls) if name.startswith(LEARNS)]
    learns = [name for name in learns if _learns_from_a_step(vars(cls)[name])]
    if not chooses or not learns:
        return
    for name in chooses:
        _decide(cls, name, None, "inference")
        _log(cls, name, "inference", Evidence(0, "it chooses an action"))
    for name in learns:
        _decide(cls, name, None, "backpropagation", update=True)
        _log(cls, name, "backpropagation", Evidence(0, "it learns from a reward"))


def _learns_from_a_step(method: Any) -> bool:
    if not _is_plain(method):
        return False
    code = method.__code__
    told = set(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    return bool(told & REWARDS) and bool(told & ACTIONS)


class _Watch:
    """Looks at what a method returns, until that says what the method is, but not for ever."""

    def __init__(self, cls: type, name: str, judge: Any, accept: Any) -> None:
        self.cls, self.name, self.judge, self.accept = cls, name, judge, accept
        self.calls, self.changes, self.possible = 0, 0, ""
        self.function = vars(cls)[name]
        self.span = hooks.span(
            self.function, None, on_enter=self.enter, on_exit=self.leave
        )
        hooks.replace(cls, name, self.span)
        hooks.watched.add(self.span)

    def enter(self, owner: Any) -> None:
        self.changes = _recorder.weight_changes()

    def leave(self, owner: Any, result: Any) -> None:
        decided = self.span not in hooks.watched  # but somebody holds the old one
        if decided or is_traced(result):
            return
        self.calls += 1
        learns = (
            _recorder.weight_changes() != self.changes
        )  # it trains: that is no environment
        evidence = None if learns else self.judge(owner, result)
        if evidence and evidence.certain:
            self.accept(self.cls, self.name, self.span, evidence)
        elif learns or self.calls >= MOST_CALLS:
            self.give_up(evidence)

    def give_up(self, evidence: Evidence | None) -> None:
        hooks.watched.discard(self.span)
        _recorder.change_rule(self.span, None)
        if vars(self.cls).get(self.name) is self.span:
            setattr(self.cls, self.name, self.function)
        if evidence and hasattr(self.cls, "reset"):
            _log(self.cls, self.name, "", evidence)


def _environment(cls: type, name: str, span: Any, evidence: Evidence) -> None:
    """From now on `step` is simulation and counts steps, and so is `reset`."""
    steps = width if evidence.arrays or not evidence.certain else 1
    _decide(cls, name, span, "simulation", steps=steps)
    owner = next((base for base in cls.__mro__ if "reset" in vars(base)), None)
    if owner is not None:
        hooks.instrument(owner, "reset", "simulation")
    _log(cls, name, "simulation", evidence)


def _memory(cls: type, name: str, span: Any, evidence: Evidence) -> None:
    """From now on `sample` draws a batch, and what stores or sets priorities is replay, too."""
    _decide(cls, name, span, "replay", mark="batch")
    for store in (*STORES, *PRIORITIES):
        if type(vars(cls).get(store)) is FunctionType:
            _decide(cls, store, None, "replay")
    _log(cls, name, "replay", evidence)


def _tree_search(cls: type) -> None:
    """Several of them may call each other; only the outermost call counts."""
    evidence = Evidence(0, "it searches, and its name says so")
    for name in SEARCHES:
        if _is_plain(vars(cls).get(name)):
            _decide(cls, name, None, "search")
            _log(cls, name, "search", evidence)


def _decide(cls: type, name: str, span: Any, operation: str, **options: Any) -> None:
    """Bound methods that the program holds on to change with the span they have."""
    if span is not None:
        hooks.watched.discard(span)
        _recorder.change_rule(
            span, operation, hidden_in=hooks.HIDDEN_IN[operation], **options
        )
    else:
        hooks.instrument(cls, name, operation, **options)
        hooks.watched.add(
            vars(cls)[name]
        )  # a rule of the library's own takes its place


def _log(cls: type, name: str, operation: str, evidence: Evidence) -> None:
    what = f"{_module_name(cls.__module__)}.{cls.__qualname__}.{name}"
    told = {"what": what, "operation": operation, "because": evidence.because}
    _recorder.log("decided", json.dumps(told))


def _module_name(module: str) -> str:
    """The main program goes by the name of its file."""
    path = getattr(sys.modules.get("__main__"), "__file__", None) or ""
    stem = path.rpartition("/")[2].removesuffix(".py")
    return stem if module == "__main__" and stem else module


def _names_of(cls: type, method: str) -> tuple[str, ...]:
    """How people may call it."""
    inside = f"{cls.__qualname__}.{method}"
    return (
        inside,
        f"{cls.__module__}.{inside}",
        f"{_module_name(cls.__module__)}.{inside}",
    )


def _take_function(module: Any) -> None:
    """A function of this module, if --simulation names one."""
    for name in tuple(_missing):
        owner, _, function = name.rpartition(".")
        if (
            owner in (module.__name__, _module_name(module.__name__))
            and type(vars(module).get(function)) is FunctionType
        ):
            _missing.discard(name)
            hooks.instrument(module, function, "simulation", steps=width, alone=True)
            _recorder.log(
                "decided",
                json.dumps(
                    {"what": name, "operation": "simulation", "because": "you said so"}
                ),
            )


def look_again() -> None:
    """At the functions of the main program: nobody is told when one is defined."""
    if _missing and (main := sys.modules.get("__main__")):
        _take_function(main)


def _all_classes() -> list[type]:
    """By their addresses: a metaclass may have a __hash__ or __eq__ of its own, which warns or fails."""
    waiting: list[type] = [object]
    seen: dict[int, type] = {}
    while waiting:
        below: list[type] = type.__subclasses__(waiting.pop())
        for cls in below:
            if id(cls) not in seen:
                seen[id(cls)] = cls
                waiting.append(cls)
    return [cls for cls in seen.values() if not vars(cls).keys().isdisjoint(MARKS)]
