"""TorchRL: collectors, environments, replay buffers, losses, and the Trainer's hooks.

One rollout of a collector is an iteration. What it does beside acting and stepping is to keep steps and to make a batch
of them: `replay`. Collectors with workers wait for a batch in `next`: the simulation of their workers.
"""

from __future__ import annotations

from functools import partial

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, Rule, cover_items, replace
from cutaway.record.imports import Any


def _stepped(env: Any, result: Any) -> int:
    return int(env.numel())


ENVIRONMENTS = ("torchrl.envs.common", "EnvBase+")
BUFFERS = ("torchrl.data.replay_buffers.replay_buffers", "ReplayBuffer+")
TRAINERS = "torchrl.trainers.trainers"
RULES = (
    Rule(*ENVIRONMENTS, "step step_and_maybe_reset", "simulation", steps=_stepped),
    Rule(*ENVIRONMENTS, "reset", "simulation"),
    Rule("torchrl.collectors._base", "BaseCollector+", "update_policy_weights_", "sync"),
    Rule("torchrl.collectors._single", "Collector", "rollout", "replay", iteration=True),
    Rule("torchrl.collectors._evaluator", "Evaluator", "evaluate", "evaluation"),
    Rule(*BUFFERS, "add extend sample update_priority", "replay"),
    Rule("torchrl.objectives.common", "LossModule+", "forward", "backpropagation"),
    Rule("torchrl.objectives.value.advantages", "ValueEstimatorBase+", "forward", "backpropagation"),
    Rule(TRAINERS, "Trainer+", "optim_steps", "backpropagation", update=True),
    Rule(TRAINERS, "Trainer+", "_save_trainer", "checkpoint"),
    Rule(TRAINERS, "LogValidationReward", "__call__", "evaluation"),
)


def _single(module: Any) -> None:
    policy = vars(module.Collector).get("_wrapped_policy")
    if isinstance(policy, property):
        replace(module.Collector, "_wrapped_policy", property(_acting(policy.fget), policy.fset))


def _acting(policy_of: Any) -> Any:
    """The policy is whatever can be called, compiled perhaps; what calls it gets it with the operation around."""

    def _wrapped_policy(self: Any) -> Any:
        policy = policy_of(self)
        known = vars(self).get("_cutaway_policy")
        if known is None or known.__wrapped__ is not policy:
            known = _recorder.Span(policy, "inference", hidden_in=HIDDEN_IN["inference"])
            vars(self)["_cutaway_policy"] = known
        return known

    return _wrapped_policy


def _with_workers(collector: str, module: Any) -> None:
    cover_items(getattr(module, collector), "iterator", "simulation", iteration=True)


MODULES = {
    "torchrl.collectors._single": _single,
    "torchrl.collectors._multi_sync": partial(_with_workers, "MultiSyncCollector"),
    "torchrl.collectors._multi_async": partial(_with_workers, "MultiAsyncCollector"),
}
