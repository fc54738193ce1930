"""PufferLib 3: `PuffeRL.evaluate` collects (it is not evaluation) and begins an iteration; `train` is the update.

In collecting, `send` and `recv` of the vector environments are simulation, the rest is acting. The agents that a recv
brings are as many steps.
"""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

VECTORS = ("Serial", "Multiprocessing", "Ray")


def install() -> None:
    when_imported("pufferlib.vector", _vectors)
    when_imported("pufferlib.pufferlib", _native)
    when_imported("pufferlib.pufferl", _trainer)


def _vectors(module: ModuleType) -> None:
    for name in VECTORS:
        if hasattr(module, name):
            _send_and_receive(getattr(module, name))


def _native(module: ModuleType) -> None:
    _send_and_receive(module.PufferEnv)


def _send_and_receive(vector: type) -> None:
    cover(vector, "send", "simulation")
    cover(vector, "async_reset", "simulation")
    cover(vector, "recv", "simulation", steps=_received)


def _received(vector: Any, result: Any) -> int:
    """(observations, rewards, terminals, truncations, infos, agent ids, mask): agents that are not masked."""
    return int(result[6].sum())


def _trainer(module: ModuleType) -> None:
    cover(module.PuffeRL, "evaluate", "inference", iteration=True)
    cover(module.PuffeRL, "train", "backpropagation", update=True)
    cover(module.PuffeRL, "save_checkpoint", "checkpoint")
    cover(module, "eval", "evaluation")
