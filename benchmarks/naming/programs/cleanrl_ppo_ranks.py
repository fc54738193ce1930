"""PPO on two ranks, as CleanRL's multi-GPU script does it, with gloo: gradients averaged by one flat all_reduce."""

import gymnasium as gym
import numpy as np
import torch
import torch.distributed as dist
from benchmarks.naming.truth import iteration, operation
from torch import nn, optim
from torch.distributions.categorical import Categorical

FRAMEWORK = "CleanRL style, torchrun × 2"
LAUNCHER = ("-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")

ENVS, STEPS, EPOCHS, MINIBATCHES, ITERATIONS = 2, 128, 4, 4, 20
GAMMA, LAMBDA, CLIP = 0.99, 0.95, 0.2
BATCH = ENVS * STEPS


class Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Linear(4, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh()
        )
        self.actor, self.critic = nn.Linear(256, 2), nn.Linear(256, 1)

    def get_value(self, x):
        return self.critic(self.network(x))

    def get_action_and_value(self, x, action=None):
        hidden = self.network(x)
        probs = Categorical(logits=self.actor(hidden))
        if action is None:
            action = probs.sample()
        return action, probs.log_prob(action), probs.entropy(), self.critic(hidden)


dist.init_process_group("gloo")
torch.manual_seed(1)
np.random.seed(1 + dist.get_rank())
envs = gym.vector.SyncVectorEnv([lambda: gym.make("CartPole-v1")] * ENVS)
agent = Agent()
optimizer = optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
obs, actions = torch.zeros((STEPS, ENVS, 4)), torch.zeros((STEPS, ENVS))
logprobs, rewards, dones, values = (torch.zeros((STEPS, ENVS)) for _ in range(4))

next_obs, next_done = (
    torch.Tensor(envs.reset(seed=1 + dist.get_rank())[0]),
    torch.zeros(ENVS),
)
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
            returns = (advantages + values).reshape(-1)

        b_obs, b_actions, b_logprobs = (
            obs.reshape(-1, 4),
            actions.reshape(-1),
            logprobs.reshape(-1),
        )
        b_advantages = advantages.reshape(-1)
        order = np.arange(BATCH)
        for _ in range(EPOCHS):
            np.random.shuffle(order)
            for start in range(0, BATCH, BATCH // MINIBATCHES):
                picked = order[start : start + BATCH // MINIBATCHES]
                _, newlogprob, entropy, newvalue = agent.get_action_and_value(
                    b_obs[picked], b_actions[picked]
                )
                ratio = (newlogprob - b_logprobs[picked]).exp()
                advantage = b_advantages[picked]
                clipped = -advantage * torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
                pg_loss = torch.max(-advantage * ratio, clipped).mean()
                v_loss = 0.5 * ((newvalue.view(-1) - returns[picked]) ** 2).mean()
                optimizer.zero_grad()
                (pg_loss - 0.01 * entropy.mean() + 0.5 * v_loss).backward()

                flat = torch.cat([p.grad.view(-1) for p in agent.parameters()])
                with operation("sync"):
                    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
                at = 0
                for p in agent.parameters():
                    p.grad.data.copy_(
                        flat[at : at + p.numel()].view_as(p.grad.data)
                        / dist.get_world_size()
                    )
                    at += p.numel()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()

envs.close()
dist.destroy_process_group()
