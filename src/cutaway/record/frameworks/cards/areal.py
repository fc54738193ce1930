"""AReaL times the steps of its trainer with `stats_tracker.record_timing`. Read at the head of May 2026; no training was run here.

What its workflows time in coroutines overlaps on one thread, and is left to the engine's own card.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from cutaway import _recorder
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.cards._timers import table
from cutaway.record.frameworks.hooks import begin_iteration, replace
from cutaway.record.imports import Any

FIRST = "rollout"  # of an iteration
TIMERS = table(
    generation=FIRST,
    inference="critic_values",
    reference="ref_logp teacher_logp recompute_logp",
    backpropagation="compute_advantage train_step critic_train_step",
    sync="update_weights",
    evaluation="eval",
    checkpoint="save checkpoint_for_recover",
) | {
    "rollout_pause": "sync: pause",
    "rollout_pause_generation": "sync: pause",
    "rollout_continue_generation": "sync: resume",
    "rollout_resume": "sync: resume",
    "rollout_offload": "sync: sleep",
    "rollout_onload": "sync: wake",
}


def _timed(module: Any) -> None:
    # The module holds a method of its tracker, which no rule can replace.
    timing = module.record_timing

    @contextlib.contextmanager
    def record_timing(key: str) -> Iterator[None]:
        if key == FIRST:
            begin_iteration()
        operation = TIMERS.get(key)
        named = (
            _recorder.operation(operation) if operation else contextlib.nullcontext()
        )
        with named, timing(key):
            yield

    replace(module, "record_timing", record_timing)


CARD = Card(
    "AReaL",
    modules={"areal.utils.stats_tracker": _timed},
    settings=[
        Settings(
            tail="raise rollout.max_head_offpolicyness, so that batches need not wait for their last answers",
            idle_rollout="raise rollout.max_concurrent_rollouts or rollout.max_head_offpolicyness",
            fresher="lower rollout.max_head_offpolicyness",
        )
    ],
)
