"""PufferLib 3: `PuffeRL.evaluate` collects (it is not evaluation) and begins an iteration; `train` is the update. In collecting,
`send` and `recv` of the vector environments are simulation, the rest is acting."""

from __future__ import annotations

from cutaway.record.frameworks import hooks
from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any

RULES = [
    Rule("pufferlib.pufferl", "PuffeRL", inference="evaluate", iteration=True),
    Rule("pufferlib.pufferl", "PuffeRL", backpropagation="train", update=True),
    Rule("pufferlib.pufferl", "PuffeRL", checkpoint="save_checkpoint"),
    Rule("pufferlib.pufferl", "", evaluation="eval"),
]


def _received(vector: Any, result: Any) -> int:
    """(observations, rewards, terminals, truncations, infos, agent ids, mask): each agent that is not masked is a step."""
    return int(result[6].sum())


def _puffer_vectors(module: Any) -> None:
    for name in ("Serial", "Multiprocessing", "Ray", "PufferEnv"):
        vector = vars(module).get(
            name
        )  # there is one with Ray only where that is installed
        if isinstance(vector, type):
            hooks.instrument(vector, "send", "simulation")
            hooks.instrument(vector, "async_reset", "simulation")
            hooks.instrument(vector, "recv", "simulation", steps=_received)


CARD = Card(
    "PufferLib",
    version="3.0",
    rules=RULES,
    modules={
        "pufferlib.vector": _puffer_vectors,
        "pufferlib.pufferlib": _puffer_vectors,
    },
)
