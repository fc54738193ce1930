"""PPO on HalfCheetah with TorchRL: a collector, a loop over its batches, an evaluation by rollouts now and then."""

import torch
from benchmarks.naming.truth import annotate, each, iteration, operation
from tensordict.nn import AddStateIndependentNormalScale, TensorDictModule
from torch import nn
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.data.replay_buffers.samplers import SamplerWithoutReplacement
from torchrl.envs import (
    ClipTransform,
    DoubleToFloat,
    ExplorationType,
    RewardSum,
    StepCounter,
    TransformedEnv,
    set_exploration_type,
)
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value.advantages import GAE

FRAMEWORK = "TorchRL"
ENVIRONMENT = "frameworks"

FRAMES, TOTAL, MINIBATCH, EPOCHS, EVALUATE_EVERY = 256, 2_560, 64, 3, 4


def make_env():
    env = TransformedEnv(GymEnv("HalfCheetah-v5"))
    env.append_transform(RewardSum())
    env.append_transform(StepCounter())
    env.append_transform(DoubleToFloat())
    env.append_transform(ClipTransform(in_keys=["observation"], low=-10, high=10))
    return env


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, outputs),
    )


torch.manual_seed(1)
env, test_env = make_env(), make_env()
inputs, outputs = (
    env.observation_spec["observation"].shape[-1],
    env.action_spec.shape[-1],
)
actor = ProbabilisticActor(
    TensorDictModule(
        nn.Sequential(
            network(inputs, outputs),
            AddStateIndependentNormalScale(outputs, scale_lb=1e-8),
        ),
        in_keys=["observation"],
        out_keys=["loc", "scale"],
    ),
    in_keys=["loc", "scale"],
    spec=env.full_action_spec,
    distribution_class=TanhNormal,
    distribution_kwargs={
        "low": env.action_spec.space.low,
        "high": env.action_spec.space.high,
    },
    return_log_prob=True,
    default_interaction_type=ExplorationType.RANDOM,
)
critic = ValueOperator(network(inputs, 1), in_keys=["observation"])

# What the collector does beside acting and stepping is to keep the steps and to make a batch of them.
annotate(Collector, "rollout", "replay")
annotate(TransformedEnv, "step_and_maybe_reset", "simulation")
annotate(TransformedEnv, "reset", "simulation")
TensorDictReplayBuffer.__iter__ = each(TensorDictReplayBuffer.__iter__, "replay")
forward = ProbabilisticActor.forward


def acting(self, *args, **kwargs):
    """The policy acts while a rollout goes on; in the loss it is part of the update."""
    with operation("inference") if not torch.is_grad_enabled() else torch.enable_grad():
        return forward(self, *args, **kwargs)


collector = Collector(
    make_env(), actor, frames_per_batch=FRAMES, total_frames=TOTAL, device="cpu"
)
buffer = TensorDictReplayBuffer(
    storage=LazyTensorStorage(FRAMES),
    sampler=SamplerWithoutReplacement(),
    batch_size=MINIBATCH,
)
advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic, average_gae=False)
loss_module = ClipPPOLoss(
    actor_network=actor,
    critic_network=critic,
    clip_epsilon=0.2,
    normalize_advantage=True,
)
optimizer = torch.optim.Adam(
    [*actor.parameters(), *critic.parameters()], lr=3e-4, eps=1e-5
)

batches = iter(collector)
for i in range(TOTAL // FRAMES):
    iteration()
    ProbabilisticActor.forward = acting
    data = next(batches)
    ProbabilisticActor.forward = forward
    for _ in range(EPOCHS):
        with operation("backpropagation"):
            with torch.no_grad():
                data = advantage(data)
        with operation("replay"):
            buffer.extend(data.reshape(-1))
        for batch in buffer:
            with operation("backpropagation"):
                loss = loss_module(batch)
                total = (
                    loss["loss_critic"] + loss["loss_objective"] + loss["loss_entropy"]
                )
                optimizer.zero_grad(set_to_none=True)
                total.backward()
                torch.nn.utils.clip_grad_norm_(loss_module.parameters(), 0.5)
                optimizer.step()
    with operation("sync"):
        collector.update_policy_weights_()
    if i % EVALUATE_EVERY == 0:
        with (
            operation("evaluation"),
            torch.no_grad(),
            set_exploration_type(ExplorationType.DETERMINISTIC),
        ):
            actor.eval()
            test_env.rollout(
                100, actor, auto_cast_to_device=True, break_when_any_done=True
            )
            actor.train()
collector.shutdown()
