"""TD3 or DDPG with TorchRL's collector, buffer and losses: `python -m studies.survey.programs.torchrl --algorithm td3`."""

from __future__ import annotations

import argparse
from typing import Any

import torch
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import DoubleToFloat, TransformedEnv
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import MLP, AdditiveGaussianModule, TanhModule, ValueOperator
from torchrl.objectives import DDPGLoss, SoftUpdate, TD3Loss

torch.set_num_threads(1)
SIZES = (400, 300)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("td3", "ddpg"), default="td3")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument(
        "--every", type=int, default=50, help="steps a rollout, then as many updates"
    )
    args = parser.parse_args()
    td3 = args.algorithm == "td3"

    env = TransformedEnv(GymEnv("Walker2d-v5"), DoubleToFloat())
    observations, actions = (
        env.observation_spec["observation"].shape[-1],
        env.action_spec.shape[-1],
    )
    actor = TensorDictSequential(
        TensorDictModule(
            MLP(observations, actions, num_cells=SIZES, activation_class=torch.nn.ReLU),
            in_keys=["observation"],
            out_keys=["param"],
        ),
        TanhModule(in_keys=["param"], out_keys=["action"], spec=env.action_spec),
    )
    value = ValueOperator(
        MLP(observations + actions, 1, num_cells=SIZES, activation_class=torch.nn.ReLU),
        in_keys=["observation", "action"],
    )
    exploring = TensorDictSequential(
        actor,
        AdditiveGaussianModule(spec=env.action_spec, sigma_init=0.1, sigma_end=0.1),
    )
    loss: Any = (
        TD3Loss(actor, value, action_spec=env.action_spec)
        if td3
        else DDPGLoss(actor, value)
    )
    loss.make_value_estimator(gamma=0.99)
    targets = SoftUpdate(loss, eps=0.995)
    values = loss.qvalue_network_params if td3 else loss.value_network_params
    critic_optimizer = torch.optim.Adam(values.flatten_keys().values(), lr=1e-3)
    actor_optimizer = torch.optim.Adam(
        loss.actor_network_params.flatten_keys().values(), lr=1e-3
    )
    buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100_000), batch_size=100)
    collector = Collector(
        env, exploring, frames_per_batch=args.every, total_frames=args.steps
    )
    delay = 2 if td3 else 1
    for data in collector:
        buffer.extend(data.reshape(-1))
        for update in range(args.every):
            batch = buffer.sample()
            (critic_loss, *_) = (
                loss.value_loss(batch) if td3 else loss.loss_value(batch)
            )
            critic_loss.backward()
            critic_optimizer.step()
            critic_optimizer.zero_grad()
            if update % delay == 0:
                (actor_loss, *_) = (
                    loss.actor_loss(batch) if td3 else loss.loss_actor(batch)
                )
                actor_loss.backward()
                actor_optimizer.step()
                actor_optimizer.zero_grad()
                targets.step()
        collector.update_policy_weights_()
    collector.shutdown()


if __name__ == "__main__":
    main()
