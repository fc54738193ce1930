"""TD3 in one file: HalfCheetah, and a replay buffer of NumPy arrays written for the occasion."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.naming.truth import iteration, operation
from torch import nn, optim

FRAMEWORK = "CleanRL style"

TOTAL, LEARNING_STARTS, BATCH, POLICY_FREQUENCY = 1_200, 300, 256, 2
GAMMA, TAU, POLICY_NOISE, EXPLORATION_NOISE, NOISE_CLIP = 0.99, 0.005, 0.2, 0.1, 0.5


class ReplayBuffer:
    def __init__(self, size: int, observation: int, action: int) -> None:
        self.size, self.at, self.filled = size, 0, 0
        self.obs, self.next_obs = (
            np.zeros((size, observation), np.float32) for _ in range(2)
        )
        self.actions = np.zeros((size, action), np.float32)
        self.rewards, self.dones = (np.zeros((size, 1), np.float32) for _ in range(2))

    def add(self, obs, next_obs, action, reward, done):
        self.obs[self.at], self.next_obs[self.at], self.actions[self.at] = (
            obs,
            next_obs,
            action,
        )
        self.rewards[self.at], self.dones[self.at] = reward, done
        self.at = (self.at + 1) % self.size
        self.filled = min(self.filled + 1, self.size)

    def sample(self, batch: int):
        at = np.random.randint(0, self.filled, batch)
        arrays = (self.obs, self.next_obs, self.actions, self.rewards, self.dones)
        return tuple(torch.as_tensor(array[at]) for array in arrays)


class QNetwork(nn.Module):
    def __init__(self, inputs: int) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc3 = (
            nn.Linear(inputs, 256),
            nn.Linear(256, 256),
            nn.Linear(256, 1),
        )

    def forward(self, x, a):
        x = F.relu(self.fc1(torch.cat([x, a], 1)))
        return self.fc3(F.relu(self.fc2(x)))


class Actor(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc1, self.fc2, self.fc_mu = (
            nn.Linear(inputs, 256),
            nn.Linear(256, 256),
            nn.Linear(256, outputs),
        )

    def forward(self, x):
        x = F.relu(self.fc1(x))
        return torch.tanh(self.fc_mu(F.relu(self.fc2(x))))


np.random.seed(1)
torch.manual_seed(1)
envs = gym.vector.SyncVectorEnv(
    [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("HalfCheetah-v5"))]
)
inputs, outputs = (
    envs.single_observation_space.shape[0],
    envs.single_action_space.shape[0],
)
actor, target_actor = Actor(inputs, outputs), Actor(inputs, outputs)
qf1, qf2, qf1_target, qf2_target = (QNetwork(inputs + outputs) for _ in range(4))
target_actor.load_state_dict(actor.state_dict())
qf1_target.load_state_dict(qf1.state_dict())
qf2_target.load_state_dict(qf2.state_dict())
q_optimizer = optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=3e-4)
actor_optimizer = optim.Adam(actor.parameters(), lr=3e-4)
rb = ReplayBuffer(100_000, inputs, outputs)

obs, _ = envs.reset(seed=1)
iteration()
for global_step in range(TOTAL):
    with operation("inference"):
        if global_step < LEARNING_STARTS:
            actions = np.array(
                [envs.single_action_space.sample() for _ in range(envs.num_envs)]
            )
        else:
            with torch.no_grad():
                actions = actor(torch.Tensor(obs))
                actions += torch.normal(0, EXPLORATION_NOISE * torch.ones(outputs))
                actions = (
                    actions.cpu()
                    .numpy()
                    .clip(envs.single_action_space.low, envs.single_action_space.high)
                )

    with operation("simulation"):
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

    with operation("replay"):
        rb.add(obs[0], next_obs[0], actions[0], rewards[0], terminations[0])
    obs = next_obs

    if global_step > LEARNING_STARTS:
        with operation("replay"):
            b_obs, b_next_obs, b_actions, b_rewards, b_dones = rb.sample(BATCH)
        with operation("backpropagation"):
            with torch.no_grad():
                noise = (torch.randn_like(b_actions) * POLICY_NOISE).clamp(
                    -NOISE_CLIP, NOISE_CLIP
                )
                next_actions = (target_actor(b_next_obs) + noise).clamp(-1.0, 1.0)
                qf1_next, qf2_next = (
                    qf1_target(b_next_obs, next_actions),
                    qf2_target(b_next_obs, next_actions),
                )
                next_q = b_rewards + (1 - b_dones) * GAMMA * torch.min(
                    qf1_next, qf2_next
                )
            qf_loss = F.mse_loss(qf1(b_obs, b_actions), next_q) + F.mse_loss(
                qf2(b_obs, b_actions), next_q
            )
            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()

            if global_step % POLICY_FREQUENCY == 0:
                actor_loss = -qf1(b_obs, actor(b_obs)).mean()
                actor_optimizer.zero_grad()
                actor_loss.backward()
                actor_optimizer.step()
                for network, target in (
                    (actor, target_actor),
                    (qf1, qf1_target),
                    (qf2, qf2_target),
                ):
                    for param, target_param in zip(
                        network.parameters(), target.parameters(), strict=True
                    ):
                        target_param.data.copy_(
                            TAU * param.data + (1 - TAU) * target_param.data
                        )
        iteration()

envs.close()
