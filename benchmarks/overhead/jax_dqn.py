"""A DQN on CartPole in JAX, Flax and Optax alone, for Pythons that have no small build of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax

STEPS = 32  # of an iteration; each ends with four updates
BATCH = 32


class Network(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        return nn.Dense(2)(nn.relu(nn.Dense(64)(x)))


class JaxDqn:
    """Acts and learns by two jitted functions; `train_while` is its training loop."""

    def __init__(self) -> None:
        self.network, self.optimizer = Network(), optax.adam(1e-3)
        self.parameters = self.network.init(jax.random.PRNGKey(0), jnp.zeros((1, 4)))
        self.state = self.optimizer.init(self.parameters)
        self.values, self.update = jax.jit(self.network.apply), jax.jit(self._update)
        self.random = np.random.default_rng(0)
        self.env = gym.make("CartPole-v1")
        self.observation, _ = self.env.reset(seed=0)
        self.memory: list[tuple[Any, ...]] = []

    def train_while(self, at_iteration: Callable[[], bool]) -> None:
        while at_iteration():
            for _ in range(STEPS):
                self._step()
            for _ in range(4):
                self._learn()

    def _step(self) -> None:
        action = int(
            np.asarray(self.values(self.parameters, self.observation[None])).argmax()
        )
        if self.random.random() < 0.2:
            action = int(self.random.integers(2))
        following, reward, terminated, truncated, _ = self.env.step(action)
        self.memory.append(
            (self.observation, action, reward, following, float(terminated))
        )
        self.memory = self.memory[-10_000:]
        self.observation = self.env.reset()[0] if terminated or truncated else following

    def _learn(self) -> None:
        chosen = [
            self.memory[i] for i in self.random.integers(len(self.memory), size=BATCH)
        ]
        x, action, reward, following, done = (
            np.array(column, np.float32) for column in zip(*chosen, strict=True)
        )
        batch = (x, action.astype(np.int32), reward, following, done)
        self.parameters, self.state = self.update(self.parameters, self.state, batch)

    def _update(
        self, parameters: Any, state: Any, batch: tuple[Any, ...]
    ) -> tuple[Any, Any]:
        x, action, reward, following, done = batch
        target = reward + 0.99 * (1 - done) * self.network.apply(
            parameters, following
        ).max(-1)

        def loss(parameters: Any) -> Any:
            values = self.network.apply(parameters, x)
            return (
                (jnp.take_along_axis(values, action[:, None], 1)[:, 0] - target) ** 2
            ).mean()

        change, state = self.optimizer.update(jax.grad(loss)(parameters), state)
        return optax.apply_updates(parameters, change), state
