"""TorchRL. One rollout of a collector is an iteration. What it does beside acting and stepping is to keep steps and to make a
batch of them: `replay`."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, instrument_items, replace, span
from cutaway.record.imports import Any


def _stepped(env: Any, result: Any) -> int:
    return int(env.numel())


def _workers(kind: str, collector: str) -> Rule:
    """Collectors with workers wait for a batch in `next`: the simulation of their workers."""
    module = f"{COLLECTORS}._multi_{kind}"
    return Rule(
        module, collector, simulation="iterator", by=instrument_items, iteration=True
    )


COLLECTORS, OBJECTIVES, TRAINERS = (
    "torchrl.collectors",
    "torchrl.objectives",
    "torchrl.trainers.trainers",
)
REPLAY_BUFFERS = ("torchrl.data.replay_buffers.replay_buffers", "ReplayBuffer+")
RULES = [
    Rule(
        "torchrl.envs.common",
        "EnvBase+",
        simulation="step step_and_maybe_reset",
        steps=_stepped,
    ),
    Rule("torchrl.envs.common", "EnvBase+", simulation="reset"),
    Rule(f"{COLLECTORS}._base", "BaseCollector+", sync="update_policy_weights_"),
    Rule(f"{COLLECTORS}._single", "Collector", replay="rollout", iteration=True),
    _workers("sync", "MultiSyncCollector"),
    _workers("async", "MultiAsyncCollector"),
    Rule(f"{COLLECTORS}._evaluator", "Evaluator", evaluation="evaluate"),
    Rule(f"{OBJECTIVES}.common", "LossModule+", backpropagation="forward"),
    Rule(
        f"{OBJECTIVES}.value.advantages",
        "ValueEstimatorBase+",
        backpropagation="forward",
    ),
    Rule(TRAINERS, "Trainer+", backpropagation="optim_steps", update=True),
    Rule(TRAINERS, "Trainer+", checkpoint="_save_trainer"),
    Rule(TRAINERS, "LogValidationReward", evaluation="__call__"),
    Rule(*REPLAY_BUFFERS, replay="add extend sample update_priority"),
]


def _single_collector(module: Any) -> None:
    """The policy is whatever can be called, compiled perhaps; what calls it gets it with the operation around."""
    policy = vars(module.Collector).get("_wrapped_policy")
    if not isinstance(policy, property):
        return
    policy_of: Any = policy.fget

    def _wrapped_policy(self: Any) -> Any:
        policy = policy_of(self)
        known = vars(self).get("_cutaway_policy")
        if known is None or known.__wrapped__ is not policy:
            known = vars(self)["_cutaway_policy"] = span(policy, "inference")
        return known

    replace(module.Collector, "_wrapped_policy", property(_wrapped_policy, policy.fset))


CARD = Card(
    "TorchRL",
    version="0.14",
    rules=RULES,
    modules={f"{COLLECTORS}._single": _single_collector},
    loop="torchrl",
    settings=[
        Settings(
            workers="use ParallelEnv({n}, ...)",
            fewer="ParallelEnv({n}, ...)",
            one_process="SerialEnv instead of ParallelEnv",
            inference="put more environments into ParallelEnv or SerialEnv, so that one forward pass serves more of them",
            update="use fewer, larger minibatches, and torch.compile the loss",
            passes="pass over each batch of the collector fewer times, and torch.compile the loss",
            rarer="make fewer optimizer steps for each batch of the collector, and torch.compile the loss",
        )
    ],
)
