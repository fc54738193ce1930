"""Brax training. Collecting and learning are one compiled call (`training_epoch`), which `frameworks/jax.py` finds by what it holds:
`training program`. Evaluation is another one. An epoch and its evaluation are an iteration."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule

CARD = Card(
    "Brax",
    version="0.14",
    rules=[
        Rule(
            "brax.training.acting",
            "Evaluator",
            evaluation="run_evaluation",
            iteration=True,
        ),
        Rule(
            "brax.training.agents.ppo.checkpoint brax.training.agents.sac.checkpoint",
            "",
            checkpoint="save",
        ),
    ],
    loop="brax.training",
    settings=[
        Settings(
            inference="raise num_envs, so that one compiled call steps more environments",
            update="raise batch_size and lower num_minibatches (fewer, larger minibatches), or lower num_updates_per_batch",
            passes="lower num_updates_per_batch",
            rarer="lower grad_updates_per_step",
        )
    ],
)
