"""ROLL times its steps with `codetiming.Timer`, in its driver and in the threads that play episodes. Read at the head of August 2026;
no training was run here.
"""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.cards._timers import rules, table
from cutaway.record.imports import Any

TIMERS = table(
    generation="rollout step_generate generate",
    tool="step reset",
    reward="reward_postprocess cal_response_norm_rewards get_token_reward cal_token_reward",
    reference="cal_ref_log_probs cal_old_log_probs_values cal_log_probs teacher_forward",
    backpropagation="compute_advantage train_timer step_train actor_train student_train_step",
    sync="model_update step_model_update step_stop_server shrink_sampler",
    evaluation="val val_step",
    checkpoint="do_checkpoint",
)


def _name(timer: Any, *args: Any, **kwargs: Any) -> str:
    return str(timer.name)


CARD = Card(
    "ROLL",
    rules=rules(
        ("codetiming._timer", "Timer"),
        "__enter__",
        "__exit__",
        _name,
        TIMERS,
        iteration="pipeline_step_total step_total",
    ),
    settings=[
        Settings(
            tail="set is_use_additional_prompts, or raise async_generation_ratio",
            fresher="lower async_generation_ratio",
        )
    ],
)
