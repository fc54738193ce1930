"""AgileRL: every algorithm acts, learns and is tested by methods of the same names; memories add and sample. Environments are
gymnasium's and PettingZoo's. The hook points were read in its sources; it was not run."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule

ALGORITHM = ("agilerl.algorithms.core.base", "EvolvableAlgorithm+")
MEMORY = "agilerl.components.replay_buffer"
CARD = Card(
    "AgileRL",
    version="2.58",
    rules=[
        Rule(*ALGORITHM, inference="get_action"),
        Rule(*ALGORITHM, backpropagation="learn", update=True),
        Rule(*ALGORITHM, evaluation="test", checkpoint="save_checkpoint"),
        Rule(MEMORY, "ReplayBuffer+", replay="add update_priorities"),
        Rule(
            MEMORY, "ReplayBuffer+", replay="sample sample_from_indices", mark="batch"
        ),
    ],
    loop="agilerl",
    settings=[
        Settings(
            inference="raise num_envs of make_vect_envs, so that one forward pass serves more environments",
            update="raise batch_size (fewer, larger minibatches), or lower update_epochs",
            passes="lower update_epochs",
            rarer="raise learn_step",
        )
    ],
)
