"""Causes inside a framework's loop, or in a program that says nothing about itself."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import cutaway
from benchmarks.verdicts.declare import (
    WALL,
    Body,
    Pace,
    compute,
    loop,
    mp,
    planted,
    timed,
    within,
)

if TYPE_CHECKING:
    import torch
    from stable_baselines3.common.base_class import BaseAlgorithm

WARM_UP_STEPS = 100
OTHER_CAUSES = "straggler simulation-bound-workers waiting cpu-oversubscription"


@planted(
    "idle-workers-gymnasium",
    gives="workers-cost",
    never=f"{OTHER_CAUSES} python-glue",
    says=("SyncVectorEnv",),
    flag="--sync",
    clock=WALL,
)
@loop
def idle_workers_gymnasium(applied: bool) -> Body:
    """Eight workers for CartPole, whose step is shorter than a message; after: no workers."""
    import gymnasium

    vector = (
        gymnasium.vector.SyncVectorEnv if applied else gymnasium.vector.AsyncVectorEnv
    )
    envs = vector([lambda: gymnasium.make("CartPole-v1")] * 8)
    envs.reset(seed=1)
    actions = envs.action_space.sample()

    def body() -> None:
        for _ in range(16):
            envs.step(actions)
        within("backpropagation", compute, 4)

    return body


@planted(
    "idle-workers-sb3",
    gives="workers-cost",
    never=f"{OTHER_CAUSES} python-glue",
    says=("DummyVecEnv",),
    flag="--dummy",
    clock=WALL,
)
def idle_workers_sb3(applied: bool, seconds: float) -> Pace:
    """PPO with four workers for CartPole; after: no workers."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

    kind = DummyVecEnv if applied else SubprocVecEnv
    started = {} if applied else {"start_method": "fork"}
    envs = make_vec_env(
        "CartPole-v1", n_envs=8, vec_env_cls=kind, vec_env_kwargs=started
    )
    model = PPO(
        "MlpPolicy", envs, n_steps=64, n_epochs=1, batch_size=512, device="cpu", seed=1
    )
    return _learned(model, seconds)


@planted(
    "off-policy-dqn",
    gives="backpropagation-bound python-glue",
    never=f"{OTHER_CAUSES} replay-bound workers-cost",
    says=("gradient_steps",),
    silent_on=("n_epochs", "minibatch"),
    flag="--fewer-updates",
)
def off_policy_dqn(applied: bool, seconds: float) -> Pace:
    """DQN that updates often; after: half as often."""
    from stable_baselines3 import DQN

    updates = 2 if applied else 4
    model = DQN(
        "MlpPolicy",
        "CartPole-v1",
        learning_starts=50,
        train_freq=1,
        gradient_steps=updates,
        seed=1,
    )
    return _learned(model, seconds)


@planted(
    "off-policy-tqc",
    gives="backpropagation-bound python-glue",
    never=f"{OTHER_CAUSES} replay-bound workers-cost",
    says=("gradient_steps",),
    silent_on=("n_epochs", "minibatch"),
    flag="--fewer-updates",
)
def off_policy_tqc(applied: bool, seconds: float) -> Pace:
    """TQC, which has no passes over a rollout; after: half the updates."""
    from sb3_contrib import TQC

    updates = 1 if applied else 2
    small = {"net_arch": [64, 64]}
    model = TQC(
        *("MlpPolicy", "Pendulum-v1"),
        learning_starts=50, train_freq=1, gradient_steps=updates, policy_kwargs=small, seed=1,
    )  # fmt: skip
    return _learned(model, seconds)


@planted(
    "gil-fight-sb3",
    gives="gil",
    never=f"{OTHER_CAUSES} python-glue backpropagation-bound workers-cost balanced",
    says=("process of its own",),
    flag="--process",
    clock=WALL,
)
def gil_fight_sb3(applied: bool, seconds: float) -> Pace:
    """PPO beside a thread that parses logs in Python; after: that thread is a process."""
    from stable_baselines3 import PPO

    start = mp.Process if applied else threading.Thread
    start(target=_parse_logs, daemon=True).start()
    model = PPO(
        "MlpPolicy",
        "CartPole-v1",
        n_steps=16,  # short: the fight slows each step hundreds of times
        n_epochs=4,
        batch_size=16,
        device="cpu",
        seed=1,
    )
    return _learned(model, seconds)


def _parse_logs() -> None:
    lines = [f"step={i} reward={i % 7}.5 length={i % 200}" for i in range(1000)]
    while True:
        rows = [dict(word.split("=") for word in line.split()) for line in lines]
        sum(float(row["reward"]) for row in rows)


def _learned(model: BaseAlgorithm, seconds: float) -> Pace:
    """Steps until the time is over, after a few to warm up."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Until(BaseCallback):
        end = 0.0

        def _on_step(self) -> bool:
            return time.perf_counter() < self.end

    model.learn(WARM_UP_STEPS)
    warmed_up = model.num_timesteps
    until = Until()
    until.end = time.perf_counter() + seconds

    def steps() -> int:
        model.learn(10**9, until, reset_num_timesteps=False)
        return model.num_timesteps - warmed_up

    return timed(steps)


class Pendulums:
    """A simulator of torch tensors, as rsl_rl's users write it: no base class, nothing registered."""

    def __init__(self, count: int, substeps: int) -> None:
        import torch

        self.state = torch.zeros(count, 2)
        self.substeps = substeps

    def reset(self) -> torch.Tensor:
        self.state = self.state * 0 + 0.1
        return self.state

    def step(
        self, actions: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict[str, Any]]:
        angle, speed = self.state.unbind(-1)
        for _ in range(self.substeps):
            speed = speed + 0.01 * (9.81 * angle.sin() + actions.squeeze(-1))
            angle = angle + 0.01 * speed
        self.state = angle.new_empty(self.state.shape)
        self.state[:, 0], self.state[:, 1] = angle, speed
        return self.state, -angle.square(), angle.abs() > 3, {}


@planted(
    "torch-simulator",
    gives="simulation-bound",
    never="inference-bound backpropagation-bound thin-operations unnamed",
    says=("simulation",),
    flag="--half-the-physics",
)
def torch_simulator(applied: bool, seconds: float) -> Pace:
    """A bare class whose `step` is torch code, like the policy and the update: only what it does tells them apart."""
    import torch

    env = Pendulums(256, 30 if applied else 60)
    policy = torch.nn.Sequential(
        torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1)
    )
    optimizer = torch.optim.Adam(policy.parameters())

    def train() -> int:
        made, end = 0, time.perf_counter() + seconds
        observed = env.reset()
        while time.perf_counter() < end:
            cutaway.iteration()
            for _ in range(8):
                with torch.no_grad():
                    actions = policy(observed)
                observed, reward, _, _ = env.step(actions)
            loss = (policy(observed).squeeze(-1) - reward).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            made += 1
        return made

    return timed(train)


@planted(
    "step-by-step-update",
    gives="backpropagation-bound",
    never="python-glue balanced inference-bound simulation-bound",
    says=("one after the other",),
    silent_on=("minibatches",),
    flag="--stacked",
)
def step_by_step(applied: bool, seconds: float) -> Pace:
    """REINFORCE whose loss is made of one small graph for each step; after: the steps are stacked, and the network runs once."""
    import gymnasium
    import torch

    env = gymnasium.make("CartPole-v1")
    policy = torch.nn.Sequential(
        torch.nn.Linear(4, 64), torch.nn.Tanh(), torch.nn.Linear(64, 2)
    )
    optimizer = torch.optim.Adam(policy.parameters())

    def log_prob(observed: Any, actions: torch.Tensor) -> torch.Tensor:
        chances = torch.distributions.Categorical(logits=policy(observed))
        return chances.log_prob(actions)

    def rollout(steps: int) -> tuple[list[Any], list[torch.Tensor]]:
        seen, done = [], []
        observed, _ = env.reset()
        for _ in range(steps):
            seen.append(torch.as_tensor(observed))
            with torch.no_grad():
                logits = policy(seen[-1])
                done.append(torch.distributions.Categorical(logits=logits).sample())
            observed, _, ended, cut, _ = env.step(int(done[-1]))
            if ended or cut:
                observed, _ = env.reset()
        return seen, done

    def train() -> int:
        made, end = 0, time.perf_counter() + seconds
        while time.perf_counter() < end:
            cutaway.iteration()
            seen, done = rollout(128)
            if applied:
                loss = -log_prob(torch.stack(seen), torch.stack(done)).sum()
            else:
                each = [log_prob(*step) for step in zip(seen, done, strict=True)]
                loss = -torch.stack(each).sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            made += 1
        return made

    return timed(train)
