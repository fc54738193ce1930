"""DQN in one file with JAX and Flax, as CleanRL writes it: CartPole, a jitted update, the network applied by jit."""

import random
from contextlib import nullcontext
from typing import Any

import flax
import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax
from benchmarks.naming.truth import iteration, operation
from flax.training.train_state import TrainState
from stable_baselines3.common.buffers import ReplayBuffer

FRAMEWORK = "JAX, CleanRL style"

TOTAL, LEARNING_STARTS, TRAIN_FREQUENCY, TARGET_FREQUENCY, BATCH, GAMMA = (
    12_000,
    1_000,
    5,
    500,
    128,
    0.99,
)


class QNetwork(nn.Module):
    actions: int

    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Dense(120)(x))
        x = nn.relu(nn.Dense(84)(x))
        return nn.Dense(self.actions)(x)


class State(TrainState):
    target_params: Any


random.seed(1)
np.random.seed(1)
envs = gym.vector.SyncVectorEnv(
    [lambda: gym.wrappers.RecordEpisodeStatistics(gym.make("CartPole-v1"))]
)
obs, _ = envs.reset(seed=1)
q_network = QNetwork(envs.single_action_space.n)
params = q_network.init(jax.random.PRNGKey(1), obs)
q_state = State.create(
    apply_fn=q_network.apply,
    params=params,
    target_params=params,
    tx=optax.adam(learning_rate=2.5e-4),
)
q_network.apply = jax.jit(q_network.apply)
rb = ReplayBuffer(
    10_000, envs.single_observation_space, envs.single_action_space, "cpu"
)


@jax.jit
def update(q_state, observations, actions, next_observations, rewards, dones):
    q_next = jnp.max(q_network.apply(q_state.target_params, next_observations), axis=-1)
    targets = rewards + (1 - dones) * GAMMA * q_next

    def mse_loss(params):
        q_pred = q_network.apply(params, observations)[
            jnp.arange(len(actions)), actions.squeeze()
        ]
        return ((q_pred - targets) ** 2).mean(), q_pred

    (loss, q_pred), grads = jax.value_and_grad(mse_loss, has_aux=True)(q_state.params)
    return loss, q_pred, q_state.apply_gradients(grads=grads)


seen: set[str] = set()


def compiled(name: str) -> str:
    """The first call of a jitted function traces and compiles it."""
    first = name not in seen
    seen.add(name)
    return "compile" if first else name


launched = False
iteration()
for global_step in range(TOTAL):
    with operation("inference"):
        epsilon = max(1.0 - 0.95 * global_step / (0.5 * TOTAL), 0.05)
        if random.random() < epsilon:
            actions = np.array([envs.single_action_space.sample()])
        else:
            with operation(compiled("inference")):
                q_values = q_network.apply(q_state.params, obs)
                greedy = q_values.argmax(axis=-1)
                # The update computes until now: with jax.block_until_ready behind it, inference is shorter by this wait.
                with operation("backpropagation") if launched else nullcontext():
                    actions = jax.device_get(greedy)
                launched = False

    with operation("simulation"):
        next_obs, rewards, terminations, truncations, infos = envs.step(actions)

    with operation("replay"):
        rb.add(obs, next_obs.copy(), actions, rewards, terminations, [{}])
    obs = next_obs

    if global_step > LEARNING_STARTS and global_step % TRAIN_FREQUENCY == 0:
        with operation("replay"):
            data = rb.sample(BATCH)
        with operation(compiled("backpropagation")):
            loss, old_val, q_state = update(
                q_state,
                data.observations.numpy(),
                data.actions.numpy(),
                data.next_observations.numpy(),
                data.rewards.flatten().numpy(),
                data.dones.flatten().numpy(),
            )
            launched = True
            if global_step % 100 == 0:
                jax.device_get(loss)
                launched = False
        if global_step % TARGET_FREQUENCY == 0:
            with operation("backpropagation"):
                q_state = q_state.replace(
                    target_params=optax.incremental_update(
                        q_state.params, q_state.target_params, 1.0
                    )
                )
        iteration()

flax.serialization.to_bytes(q_state.params)
envs.close()
