"""verl: its own timers say what each part of a step is; all of them go through one function."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

from cutaway import _recorder
from cutaway.record.frameworks.cover import Rule, begin_iteration
from cutaway.record.imports import Any

OPERATIONS = {
    "gen": "generation",
    "generate_sequences": "generation",
    "reward": "reward",
    "compute_score": "reward",
    "old_log_prob": "reference",
    "ref": "reference",
    "values": "inference",
    "adv": "backpropagation",
    "update_critic": "backpropagation",
    "update_actor": "backpropagation",
    "update_weights": "sync",
    "sync_rollout_weights": "sync",
    "param_sync": "sync",
    "testing": "evaluation",
    "save_checkpoint": "checkpoint",
}


def _named(timer: Callable[..., Iterator[None]]) -> Callable[..., Iterator[None]]:
    @functools.wraps(timer)
    def named(name: str, *args: Any, **kwargs: Any) -> Iterator[None]:
        if name == "step":
            begin_iteration()
        operation = OPERATIONS.get(name)
        with _recorder.operation(operation) if operation else contextlib.nullcontext():
            yield from timer(name, *args, **kwargs)

    return named


RULES = (Rule("verl.utils.profiler.performance", "", "_timer", around=_named),)
