"""SkyRL times its own steps (`skyrl.train.utils.utils.Timer`). Read at the head of August 2026; no training was run here."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.cards._timers import rules, table
from cutaway.record.imports import Any

TIMERS = table(
    generation="generate",
    reference="fwd_logprobs_values_reward",
    reward="apply_reward_kl_penalty",
    backpropagation="compute_advantages_and_returns train_critic_and_policy critic_train policy_train",
    sync="sync_weights sync_weights_to_inference_engines update_ref_with_policy",
    evaluation="eval",
    checkpoint="save_checkpoints save_hf_model load_checkpoints",
)


def _name(timer: Any, *args: Any, **kwargs: Any) -> str:
    return str(timer.message)


TIMER = ("skyrl.train.utils.utils", "Timer")
CARD = Card(
    "SkyRL",
    version="0.4",
    rules=[
        *rules(TIMER, "__enter__", "__exit__", _name, TIMERS, iteration="step"),
    ],
    settings=[
        Settings(
            tail="train fully asynchronously",
            fresher="lower trainer.fully_async.max_staleness_steps",
            idle_rollout="raise trainer.fully_async.num_parallel_generation_workers, or give the trainer more GPUs",
        )
    ],
)
