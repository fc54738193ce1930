"""TorchRL: collectors, environments, replay buffers, losses, and the Trainer's hooks.

One rollout of a collector is an iteration. What it does beside acting and stepping is to keep steps and to make a batch
of them: `replay`. Collectors with workers wait for a batch in `next`: the simulation of their workers.
"""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, cover, cover_family, cover_items, replace
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

WITH_WORKERS = (
    ("torchrl.collectors._multi_sync", "MultiSyncCollector"),
    ("torchrl.collectors._multi_async", "MultiAsyncCollector"),
)


def install() -> None:
    when_imported("torchrl.envs.common", _environments)
    when_imported("torchrl.collectors._base", _collectors)
    when_imported("torchrl.collectors._single", _single)
    for name, cls in WITH_WORKERS:
        when_imported(name, lambda module, cls=cls: _with_workers(getattr(module, cls)))  # type: ignore[misc]
    when_imported("torchrl.collectors._evaluator", _evaluator)
    when_imported("torchrl.data.replay_buffers.replay_buffers", _buffers)
    when_imported("torchrl.objectives.common", _losses)
    when_imported("torchrl.objectives.value.advantages", _advantages)
    when_imported("torchrl.trainers.trainers", _trainers)


def _environments(module: ModuleType) -> None:
    cover_family(module.EnvBase, ("step", "step_and_maybe_reset"), "simulation", steps=_stepped)
    cover_family(module.EnvBase, ("reset",), "simulation")


def _stepped(env: Any, result: Any) -> int:
    return int(env.numel())


def _collectors(module: ModuleType) -> None:
    cover_family(module.BaseCollector, ("update_policy_weights_",), "sync")


def _single(module: ModuleType) -> None:
    collector = module.Collector
    cover(collector, "rollout", "replay", iteration=True)
    policy = vars(collector).get("_wrapped_policy")
    if isinstance(policy, property):
        replace(collector, "_wrapped_policy", property(_acting(policy.fget), policy.fset))


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


def _with_workers(collector: type) -> None:
    cover_items(collector, "iterator", "simulation", iteration=True)


def _evaluator(module: ModuleType) -> None:
    cover(module.Evaluator, "evaluate", "evaluation")


def _buffers(module: ModuleType) -> None:
    cover_family(module.ReplayBuffer, ("add", "extend", "sample", "update_priority"), "replay")


def _losses(module: ModuleType) -> None:
    cover_family(module.LossModule, ("forward",), "backpropagation")


def _advantages(module: ModuleType) -> None:
    cover_family(module.ValueEstimatorBase, ("forward",), "backpropagation")


def _trainers(module: ModuleType) -> None:
    cover_family(module.Trainer, ("optim_steps",), "backpropagation", update=True)
    cover_family(module.Trainer, ("_save_trainer",), "checkpoint")
    cover(module.LogValidationReward, "__call__", "evaluation")
