"""imitation: behaviour cloning, GAIL and AIRL on top of Stable-Baselines3, which trains their generators. What a reward network says of
steps is `reward`; training the discriminator is an update. The hook points were read in its sources; it was not run."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule

ALGORITHMS = "imitation.algorithms"
CARD = Card(
    "imitation",
    version="1.0",
    rules=[
        Rule(
            f"{ALGORITHMS}.adversarial.common",
            "AdversarialTrainer+",
            backpropagation="train_disc",
            update=True,
        ),
        Rule(f"{ALGORITHMS}.bc", "RolloutStatsComputer", evaluation="__call__"),
        Rule(
            f"{ALGORITHMS}.preference_comparisons",
            "RewardTrainer+",
            backpropagation="train",
        ),
        Rule(
            "imitation.rewards.reward_nets",
            "RewardNet+",
            reward="predict predict_processed",
        ),
        Rule("imitation.data.buffer", "ReplayBuffer", replay="store"),
        Rule("imitation.data.buffer", "ReplayBuffer", replay="sample", mark="batch"),
    ],
    loop="imitation",
    settings=[
        Settings(
            update="raise batch_size of BC, or demo_batch_size of GAIL and AIRL (fewer, larger batches)",
            passes="lower n_epochs of BC.train",
            rarer="lower n_disc_updates_per_round",
        )
    ],
)
