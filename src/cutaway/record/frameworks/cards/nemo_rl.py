"""NeMo-RL times its own steps (`nemo_rl.utils.timer.Timer`). Read at the head of August 2026; no training was run here."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.cards._timers import rules, table
from cutaway.record.imports import Any

TIMERS = table(
    generation="generation exposed_generation",
    reward="reward_calculation",
    reference="policy_and_reference_logprobs",
    backpropagation="advantage_calculation policy_training",
    sync="prepare_for_generation/total weight_sync",
    evaluation="total_validation_time",
    checkpoint="checkpointing",
)


def _name(timer: Any, label: str, *args: Any, **kwargs: Any) -> str:
    return label


CARD = Card(
    "NeMo-RL",
    rules=rules(
        ("nemo_rl.utils.timer", "Timer"),
        "start",
        "stop",
        _name,
        TIMERS,
        iteration="total_step_time",
    ),
    settings=[
        Settings(
            tail="train asynchronously (grpo.async_grpo)",
            fresher="lower grpo.async_grpo.max_trajectory_age_steps",
            cheaper_sync="set grpo.async_grpo.in_flight_weight_updates=true",
        )
    ],
)
