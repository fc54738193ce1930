"""PPO for continuous actions in one file, as CleanRL writes it: HalfCheetah under its usual stack of wrappers."""

import gymnasium as gym
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn, optim
from torch.distributions.normal import Normal

FRAMEWORK = "CleanRL style"

STEPS, EPOCHS, MINIBATCHES, ITERATIONS = 512, 5, 16, 9
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2


def make_env():
    env = gym.wrappers.FlattenObservation(gym.make("HalfCheetah-v5"))
    env = gym.wrappers.RecordEpisodeStatistics(env)
    env = gym.wrappers.ClipAction(env)
    env = gym.wrappers.NormalizeObservation(env)
    env = gym.wrappers.NormalizeReward(env, gamma=GAMMA)
    return gym.wrappers.TransformReward(
        env, lambda reward: float(np.clip(reward, -10, 10))
    )


def network(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, 64),
        nn.Tanh(),
        nn.Linear(64, 64),
        nn.Tanh(),
        nn.Linear(64, outputs),
    )


class Agent(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.critic, self.actor_mean = network(inputs, 1), network(inputs, outputs)
        self.actor_logstd = nn.Parameter(torch.zeros(1, outputs))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        mean = self.actor_mean(x)
        probs = Normal(mean, torch.exp(self.actor_logstd.expand_as(mean)))
        if action is None:
            action = probs.sample()
        return (
            action,
            probs.log_prob(action).sum(1),
            probs.entropy().sum(1),
            self.critic(x),
        )


torch.manual_seed(1)
np.random.seed(1)
envs = gym.vector.SyncVectorEnv([make_env])
inputs, outputs = (
    envs.single_observation_space.shape[0],
    envs.single_action_space.shape[0],
)
agent = Agent(inputs, outputs)
optimizer = optim.Adam(agent.parameters(), lr=3e-4, eps=1e-5)
obs, actions = torch.zeros((STEPS, 1, inputs)), torch.zeros((STEPS, 1, outputs))
logprobs, rewards, dones, values = (torch.zeros((STEPS, 1)) for _ in range(4))

next_obs, next_done = torch.Tensor(envs.reset(seed=1)[0]), torch.zeros(1)
for _ in range(ITERATIONS):
    iteration()
    for step in range(STEPS):
        with operation("replay"):
            obs[step] = next_obs
            dones[step] = next_done
        with operation("inference"):
            with torch.no_grad():
                action, logprob, _, value = agent.get_action_and_value(next_obs)
        with operation("replay"):
            values[step] = value.flatten()
            actions[step] = action
            logprobs[step] = logprob
        with operation("inference"):
            chosen = action.cpu().numpy()
        with operation("simulation"):
            observed, reward, terminations, truncations, infos = envs.step(chosen)
        next_done = np.logical_or(terminations, truncations)
        with operation("replay"):
            rewards[step] = torch.tensor(reward).view(-1)
        with operation("inference"):
            next_obs, next_done = torch.Tensor(observed), torch.Tensor(next_done)

    with operation("backpropagation"):
        with torch.no_grad():
            next_value = agent.get_value(next_obs).reshape(1, -1)
            advantages = torch.zeros_like(rewards)
            last = 0
            for t in reversed(range(STEPS)):
                alive = 1.0 - (next_done if t == STEPS - 1 else dones[t + 1])
                following = next_value if t == STEPS - 1 else values[t + 1]
                delta = rewards[t] + GAMMA * following * alive - values[t]
                advantages[t] = last = delta + GAMMA * LAMBDA * alive * last
            returns = advantages + values

        b_obs, b_actions = obs.reshape(-1, inputs), actions.reshape(-1, outputs)
        b_logprobs, b_advantages, b_returns = (
            logprobs.reshape(-1),
            advantages.reshape(-1),
            returns.reshape(-1),
        )
        order = np.arange(STEPS)
        for _ in range(EPOCHS):
            np.random.shuffle(order)
            for start in range(0, STEPS, STEPS // MINIBATCHES):
                picked = order[start : start + STEPS // MINIBATCHES]
                _, newlogprob, _, newvalue = agent.get_action_and_value(
                    b_obs[picked], b_actions[picked]
                )
                ratio = (newlogprob - b_logprobs[picked]).exp()
                advantage = b_advantages[picked]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = -advantage * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
                pg_loss = torch.max(-advantage * ratio, clipped).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - b_returns[picked]) ** 2).mean()

                optimizer.zero_grad()
                (pg_loss + v_loss * 0.5).backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

envs.close()
