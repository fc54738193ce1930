"""PPO in one file, as CleanRL writes it: CartPole, four environments, storage in preallocated tensors."""

import gymnasium as gym
import numpy as np
import torch
from benchmarks.naming.truth import iteration, operation
from torch import nn, optim
from torch.distributions.categorical import Categorical

FRAMEWORK = "CleanRL style"

ENVS, STEPS, EPOCHS, MINIBATCHES, ITERATIONS = 4, 128, 4, 4, 22
GAMMA, LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.2, 0.01, 0.5
BATCH = ENVS * STEPS


def layer(inputs: int, outputs: int, std: float = np.sqrt(2)) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(linear.weight, std)
    nn.init.constant_(linear.bias, 0.0)
    return linear


class Agent(nn.Module):
    def __init__(self, envs: gym.vector.VectorEnv) -> None:
        super().__init__()
        inputs = int(np.prod(envs.single_observation_space.shape))
        self.critic = nn.Sequential(
            layer(inputs, 64), nn.Tanh(), layer(64, 64), nn.Tanh(), layer(64, 1, 1.0)
        )
        self.actor = nn.Sequential(
            layer(inputs, 64),
            nn.Tanh(),
            layer(64, 64),
            nn.Tanh(),
            layer(64, envs.single_action_space.n, 0.01),
        )

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


def make_env():
    return gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))


torch.manual_seed(1)
np.random.seed(1)
envs = gym.vector.SyncVectorEnv([make_env for _ in range(ENVS)])
agent = Agent(envs)
optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)

obs = torch.zeros((STEPS, ENVS, *envs.single_observation_space.shape))
actions = torch.zeros((STEPS, ENVS, *envs.single_action_space.shape))
logprobs, rewards, dones, values = (torch.zeros((STEPS, ENVS)) for _ in range(4))

next_obs = torch.Tensor(envs.reset(seed=1)[0])
next_done = torch.zeros(ENVS)
for it in range(1, ITERATIONS + 1):
    iteration()
    optimizer.param_groups[0]["lr"] = (1.0 - (it - 1.0) / ITERATIONS) * 2.5e-4

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

        b_obs = obs.reshape((-1, *envs.single_observation_space.shape))
        b_actions, b_logprobs = actions.reshape(-1), logprobs.reshape(-1)
        b_advantages, b_returns, b_values = (
            advantages.reshape(-1),
            returns.reshape(-1),
            values.reshape(-1),
        )

        order = np.arange(BATCH)
        for _ in range(EPOCHS):
            np.random.shuffle(order)
            for start in range(0, BATCH, BATCH // MINIBATCHES):
                picked = order[start : start + BATCH // MINIBATCHES]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                    b_obs[picked], b_actions.long()[picked]
                )
                ratio = (newlogprob - b_logprobs[picked]).exp()
                advantage = b_advantages[picked]
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                clipped = -advantage * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
                pg_loss = torch.max(-advantage * ratio, clipped).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - b_returns[picked]) ** 2).mean()
                loss = pg_loss - ENTROPY * entropy.mean() + v_loss * VALUE

                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

envs.close()
