"""A2C on EnvPool's CartPole in asynchronous mode: recv what is ready, act, send; an update when enough has come."""

import envpool
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn, optim
from torch.distributions.categorical import Categorical

FRAMEWORK = "EnvPool (send/recv)"

ENVS, BATCH, ROLLOUT, ITERATIONS, GAMMA = 16, 8, 32, 80, 0.99

torch.manual_seed(1)
env = envpool.make(
    "CartPole-v1",
    env_type="gymnasium",
    num_envs=ENVS,
    batch_size=BATCH,
    num_threads=1,
    seed=1,
)
body = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh())
actor, critic = nn.Linear(64, 2), nn.Linear(64, 1)
parameters = [*body.parameters(), *actor.parameters(), *critic.parameters()]
optimizer = optim.Adam(parameters, lr=1e-3)

# What each recv brings, and what was answered to it.
b_obs, b_actions = torch.zeros((ROLLOUT, BATCH, 4)), torch.zeros((ROLLOUT, BATCH))
b_rewards, b_dones, b_ids = (torch.zeros((ROLLOUT, BATCH)) for _ in range(3))

env.async_reset()
for _ in range(ITERATIONS):
    iteration()
    for t in range(ROLLOUT):
        with operation("simulation"):
            obs, reward, terminated, truncated, info = env.recv()
        with operation("replay"):
            obs = torch.as_tensor(obs)
            b_obs[t] = obs
            b_rewards[t] = torch.as_tensor(reward)
            b_dones[t] = torch.as_tensor(terminated | truncated)
            b_ids[t] = torch.as_tensor(info["env_id"])
        with operation("inference"):
            with torch.no_grad():
                action = Categorical(logits=actor(body(obs))).sample()
            answer = action.numpy().astype(np.int32)
        with operation("replay"):
            b_actions[t] = action
        with operation("simulation"):
            env.send(answer, info["env_id"])

    with operation("backpropagation"):
        # What an environment brought next is the result of what was answered to it before.
        order = torch.argsort(b_ids.flatten(), stable=True)
        follows = b_ids.flatten()[order[1:]] == b_ids.flatten()[order[:-1]]
        before, after = order[:-1][follows], order[1:][follows]
        observations, actions = b_obs.view(-1, 4)[before], b_actions.flatten()[before]
        nexts, rewards, dones = (
            b_obs.view(-1, 4)[after],
            b_rewards.flatten()[after],
            b_dones.flatten()[after],
        )
        for picked in torch.randperm(len(before)).split(64):
            with torch.no_grad():
                following = critic(body(nexts[picked])).squeeze(1)
                target = rewards[picked] + GAMMA * (1 - dones[picked]) * following
            hidden = body(observations[picked])
            value = critic(hidden).squeeze(1)
            probs = Categorical(logits=actor(hidden))
            advantage = target - value
            loss = (
                advantage.pow(2).mean()
                - (probs.log_prob(actions[picked]) * advantage.detach()).mean()
            )
            optimizer.zero_grad()
            (loss - 0.01 * probs.entropy().mean()).backward()
            nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
env.close()
