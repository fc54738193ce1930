"""PufferLib 3: `PuffeRL.evaluate` collects (it is not evaluation) and begins an iteration; `train` is the update.

In collecting, `send` and `recv` of the vector environments are simulation, the rest is acting. The agents that a recv
brings are as many steps.
"""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule, cover
from cutaway.record.imports import Any

TRAINER = "pufferlib.pufferl"
RULES = (
    Rule(TRAINER, "PuffeRL", "evaluate", "inference", iteration=True),
    Rule(TRAINER, "PuffeRL", "train", "backpropagation", update=True),
    Rule(TRAINER, "PuffeRL", "save_checkpoint", "checkpoint"),
    Rule(TRAINER, "", "eval", "evaluation"),
)


def _vectors(module: Any) -> None:
    for name in ("Serial", "Multiprocessing", "Ray", "PufferEnv"):
        vector = vars(module).get(name)  # there is one with Ray only where that is installed
        if isinstance(vector, type):
            cover(vector, "send", "simulation")
            cover(vector, "async_reset", "simulation")
            cover(vector, "recv", "simulation", steps=_received)


def _received(vector: Any, result: Any) -> int:
    """(observations, rewards, terminals, truncations, infos, agent ids, mask): agents that are not masked."""
    return int(result[6].sum())


MODULES = {"pufferlib.vector": _vectors, "pufferlib.pufferlib": _vectors}
