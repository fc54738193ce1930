"""embodied, which DreamerV3 is written with. The hook points were read in its sources; DreamerV3 itself was not run. Its `Driver` steps the
environments, in processes of their own or in this one, where `behaviour.py` finds them."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule

AGENT, REPLAY = ("embodied.core.base", "Agent+"), ("embodied.core.replay", "Replay+")
CARD = Card(
    "embodied",
    version="2.0",
    rules=[
        Rule("embodied.core.driver", "Driver", simulation="_receive", steps=1),
        Rule(*AGENT, inference="policy", checkpoint="save"),
        Rule(*AGENT, backpropagation="train", update=True),
        Rule(*REPLAY, replay="add update"),
        Rule(*REPLAY, replay="sample", mark="batch"),
    ],
    loop="embodied",
    settings=[
        Settings(
            workers="set run.envs={n}",
            fewer="run.envs={n}",
            inference="raise run.envs, so that one forward pass serves more environments",
            rarer="lower run.train_ratio",
        )
    ],
)
