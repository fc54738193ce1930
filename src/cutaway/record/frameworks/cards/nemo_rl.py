"""NeMo-RL times its own steps (`nemo_rl.utils.timer.Timer`). Read at the head of August 2026; no training was run here."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.cards._timers import rules, table
from cutaway.record.imports import Any

STEP, STARVED = "total_step_time", "idle/buffer_starvation"
TIMERS = table(
    generation="generation",
    # The asynchronous trainer gets what others generate.
    replay="exposed_generation",
    reward="reward_calculation",
    reference="policy_and_reference_logprobs teacher_logprob_inference",
    inference="value_inference",
    backpropagation="advantage_calculation policy_training value_training",
    sync="prepare_for_generation prepare_for_generation/total weight_sync",
    evaluation="total_validation_time",
    checkpoint="checkpointing",
) | {"prepare_for_generation/transfer_and_update_weights": "sync: update"}
_starved = False  # the step that ran last found too few samples


def _name(timer: Any, label: str, *args: Any, **kwargs: Any) -> str:
    """A step that finds too few samples waits, and begins once more: that is the same iteration."""
    global _starved
    if label == STEP:
        return "" if _starved else label
    if label == STARVED:
        _starved = True
    elif TIMERS.get(label) == "backpropagation":
        _starved = False
    return label


CARD = Card(
    "NeMo-RL",
    rules=rules(
        ("nemo_rl.utils.timer", "Timer"),
        "start",
        "stop",
        _name,
        TIMERS,
        iteration=STEP,
    ),
    settings=[
        Settings(
            tail="train asynchronously (grpo.async_grpo)",
            fresher="lower grpo.async_grpo.max_trajectory_age_steps",
            cheaper_sync="set grpo.async_grpo.in_flight_weight_updates=true",
        )
    ],
)
