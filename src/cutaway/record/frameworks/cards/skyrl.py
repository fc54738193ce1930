"""SkyRL: its trainer times its own steps (`skyrl.train.utils.utils.Timer`), its JAX backend has a method for each.

Both were read at the head of August 2026. The JAX backend was run on a CPU, the trainer was not.
"""

from __future__ import annotations

from cutaway.record import gauges
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.cards._timers import rules, table
from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any

TIMERS = table(
    generation="generate",
    replay="wait_for_generation_buffer",
    reference="fwd_logprobs_values_reward",
    reward="apply_reward_kl_penalty",
    backpropagation="compute_advantages_and_returns train_critic_and_policy critic_train policy_train forward_backward optim_step",
    sync="sync_weights sync_weights_to_inference_engines init_weight_sync_state update_ref_with_policy",
    evaluation="eval",
    checkpoint="save_checkpoints save_hf_model load_checkpoints",
)


def _name(timer: Any, *args: Any, **kwargs: Any) -> str:
    return str(timer.message)


TIMER = ("skyrl.train.utils.utils", "Timer")


def _sampled(backend: Any, results: Any) -> None:
    made = 0
    for result in results.values():
        for sequence in getattr(result, "sequences", ()):
            made += len(sequence.tokens)
    gauges.count_tokens(made)


BACKEND = ("skyrl.backends.jax", "JaxBackendImpl")
TRAINER = ("skyrl.train.trainer", "RayPPOTrainer+")
CARD = Card(
    "SkyRL",
    version="0.4",
    rules=[
        *rules(TIMER, "__enter__", "__exit__", _name, TIMERS, iteration="step"),
        # Its trainer that is one step off times what it awaits.
        *rules(TIMER, "__aenter__", "__aexit__", _name, TIMERS),
        # Its fully asynchronous trainer times them on an event loop, and runs them in threads.
        Rule(
            *TRAINER,
            reference="fwd_logprobs_values_reward",
            backpropagation="train_critic_and_policy",
            checkpoint="save_checkpoints save_models",
        ),
        Rule(*BACKEND, generation="sample", on_exit=_sampled),
        Rule(*BACKEND, backpropagation="optim_step", iteration=True),
        Rule(
            *BACKEND,
            reference="forward",
            backpropagation="forward_backward",
            sync="save_sampler_checkpoint load_sampler_checkpoint",
            checkpoint="save_checkpoint",
        ),
    ],
    settings=[
        Settings(
            tail="train fully asynchronously",
            fresher="lower trainer.fully_async.max_staleness_steps",
            idle_rollout="raise trainer.fully_async.num_parallel_generation_workers, or give the trainer more GPUs",
        )
    ],
)
