"""SAC in one file, as CleanRL writes it: Pendulum, twin critics, delayed policy updates, tuned entropy."""

import gymnasium as gym
import numpy as np
import torch
import torch.nn.functional as F
from benchmarks.naming.truth import iteration, operation
from stable_baselines3.common.buffers import ReplayBuffer
from torch import nn, optim

FRAMEWORK = "CleanRL style"

TOTAL, LEARNING_STARTS, BATCH, POLICY_FREQUENCY = 700, 200, 256, 2
GAMMA, TAU, LOG_STD_MIN, LOG_STD_MAX = 0.99, 0.005, -5, 2


class SoftQNetwork(nn.Module):
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
    def __init__(self, space: gym.spaces.Box, inputs: int) -> None:
        super().__init__()
        outputs = int(np.prod(space.shape))
        self.fc1, self.fc2 = nn.Linear(inputs, 256), nn.Linear(256, 256)
        self.fc_mean, self.fc_logstd = nn.Linear(256, outputs), nn.Linear(256, outputs)
        self.register_buffer("scale", torch.tensor((space.high - space.low) / 2.0))
        self.register_buffer("bias", torch.tensor((space.high + space.low) / 2.0))

    def forward(self, x):
        x = F.relu(self.fc2(F.relu(self.fc1(x))))
        log_std = torch.tanh(self.fc_logstd(x))
        return self.fc_mean(x), LOG_STD_MIN + 0.5 * (LOG_STD_MAX - LOG_STD_MIN) * (
            log_std + 1
        )

    def get_action(self, x):
        mean, log_std = self(x)
        normal = torch.distributions.Normal(mean, log_std.exp())
        x_t = normal.rsample()
        y_t = torch.tanh(x_t)
        log_prob = normal.log_prob(x_t) - torch.log(
            self.scale * (1 - y_t.pow(2)) + 1e-6
        )
        return y_t * self.scale + self.bias, log_prob.sum(1, keepdim=True)


np.random.seed(1)
torch.manual_seed(1)
envs = gym.vector.SyncVectorEnv(
    [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("Pendulum-v1"))]
)
inputs = int(np.prod(envs.single_observation_space.shape))
outputs = int(np.prod(envs.single_action_space.shape))
actor = Actor(envs.single_action_space, inputs)
qf1, qf2, qf1_target, qf2_target = (SoftQNetwork(inputs + outputs) for _ in range(4))
qf1_target.load_state_dict(qf1.state_dict())
qf2_target.load_state_dict(qf2.state_dict())
q_optimizer = optim.Adam([*qf1.parameters(), *qf2.parameters()], lr=1e-3)
actor_optimizer = optim.Adam(actor.parameters(), lr=3e-4)
target_entropy = -float(outputs)
log_alpha = torch.zeros(1, requires_grad=True)
alpha = log_alpha.exp().item()
a_optimizer = optim.Adam([log_alpha], lr=1e-3)
rb = ReplayBuffer(
    100_000,
    envs.single_observation_space,
    envs.single_action_space,
    "cpu",
    handle_timeout_termination=False,
)

obs, _ = envs.reset(seed=1)
iteration()
for global_step in range(TOTAL):
    with operation("inference"):
        if global_step < LEARNING_STARTS:
            actions = np.array(
                [envs.single_action_space.sample() for _ in range(envs.num_envs)]
            )
        else:
            actions, _ = actor.get_action(torch.Tensor(obs))
            actions = actions.detach().cpu().numpy()

    with operation("simulation"):
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

    with operation("replay"):
        rb.add(obs, next_obs.copy(), actions, rewards, terminations, [{}])
    obs = next_obs

    if global_step > LEARNING_STARTS:
        with operation("replay"):
            data = rb.sample(BATCH)
        with operation("backpropagation"):
            with torch.no_grad():
                next_actions, next_log_pi = actor.get_action(data.next_observations)
                qf1_next = qf1_target(data.next_observations, next_actions)
                qf2_next = qf2_target(data.next_observations, next_actions)
                min_next = torch.min(qf1_next, qf2_next) - alpha * next_log_pi
                next_q = data.rewards.flatten() + (
                    1 - data.dones.flatten()
                ) * GAMMA * min_next.view(-1)
            qf1_loss = F.mse_loss(qf1(data.observations, data.actions).view(-1), next_q)
            qf2_loss = F.mse_loss(qf2(data.observations, data.actions).view(-1), next_q)
            qf_loss = qf1_loss + qf2_loss
            q_optimizer.zero_grad()
            qf_loss.backward()
            q_optimizer.step()

            if global_step % POLICY_FREQUENCY == 0:
                for _ in range(POLICY_FREQUENCY):
                    pi, log_pi = actor.get_action(data.observations)
                    min_qf_pi = torch.min(
                        qf1(data.observations, pi), qf2(data.observations, pi)
                    )
                    actor_loss = ((alpha * log_pi) - min_qf_pi).mean()
                    actor_optimizer.zero_grad()
                    actor_loss.backward()
                    actor_optimizer.step()

                    with torch.no_grad():
                        _, log_pi = actor.get_action(data.observations)
                    alpha_loss = (-log_alpha.exp() * (log_pi + target_entropy)).mean()
                    a_optimizer.zero_grad()
                    alpha_loss.backward()
                    a_optimizer.step()
                    alpha = log_alpha.exp().item()

            for network, target in ((qf1, qf1_target), (qf2, qf2_target)):
                for param, target_param in zip(
                    network.parameters(), target.parameters(), strict=True
                ):
                    target_param.data.copy_(
                        TAU * param.data + (1 - TAU) * target_param.data
                    )
        iteration()

envs.close()
