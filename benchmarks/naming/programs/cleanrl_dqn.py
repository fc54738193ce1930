"""DQN in one file, as CleanRL writes it: CartPole, one environment, Stable-Baselines3's replay buffer."""

import random

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.naming.truth import iteration, operation
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn, optim

FRAMEWORK = "CleanRL style"

TOTAL, LEARNING_STARTS, TRAIN_FREQUENCY, TARGET_FREQUENCY, BATCH = (
    14_000,
    1_000,
    10,
    500,
    128,
)
GAMMA, TAU = 0.99, 1.0


class QNetwork(nn.Module):
    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        inputs = int(np.prod(envs.single_observation_space.shape))
        self.network = nn.Sequential(
            nn.Linear(inputs, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, envs.single_action_space.n),
        )

    def forward(self, x):
        return self.network(x)


def make_env():
    return gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))


random.seed(1)
torch.manual_seed(1)
envs = gym.vector.SyncVectorEnv([make_env])
q_network, target_network = QNetwork(envs), QNetwork(envs)
target_network.load_state_dict(q_network.state_dict())
optimizer = optim.Adam(q_network.parameters(), lr=2.5e-4)
rb = ReplayBuffer(
    10_000, envs.single_observation_space, envs.single_action_space, "cpu"
)

obs, _ = envs.reset(seed=1)
iteration()
for global_step in range(TOTAL):
    with operation("inference"):
        epsilon = max(1.0 - 0.95 * global_step / (0.5 * TOTAL), 0.05)
        if random.random() < epsilon:
            actions = np.array(
                [envs.single_action_space.sample() for _ in range(envs.num_envs)]
            )
        else:
            q_values = q_network(torch.Tensor(obs))
            actions = torch.argmax(q_values, dim=1).cpu().numpy()

    with operation("simulation"):
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

    with operation("replay"):
        rb.add(obs, next_obs.copy(), actions, rewards, terminations, [{}])
    obs = next_obs

    if global_step > LEARNING_STARTS and global_step % TRAIN_FREQUENCY == 0:
        with operation("replay"):
            data = rb.sample(BATCH)
        with operation("backpropagation"):
            with torch.no_grad():
                target_max, _ = target_network(data.next_observations).max(dim=1)
                td_target = data.rewards.flatten() + GAMMA * target_max * (
                    1 - data.dones.flatten()
                )
            old_val = q_network(data.observations).gather(1, data.actions).squeeze()
            loss = F.mse_loss(td_target, old_val)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if global_step % TARGET_FREQUENCY == 0:
            with operation("backpropagation"):
                for target, param in zip(
                    target_network.parameters(), q_network.parameters(), strict=True
                ):
                    target.data.copy_(TAU * param.data + (1.0 - TAU) * target.data)
        iteration()

envs.close()
