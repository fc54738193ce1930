"""A small DQN on CartPole in JAX, Flax and Optax, with the two annotations a jitted program is glad of:

cutaway run examples/jax_dqn.py
"""

import argparse

import flax.linen as nn
import gymnasium as gym
import jax
import jax.numpy as jnp
import numpy as np
import optax

import cutaway

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=600)
args = parser.parse_args()


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(2)(nn.relu(nn.Dense(64)(x)))


network = Network()
parameters = network.init(jax.random.PRNGKey(0), jnp.zeros((1, 4)))
optimizer = optax.adam(1e-3)
state = optimizer.init(parameters)


@jax.jit
def q_values(parameters, x):
    return network.apply(parameters, x)


@jax.jit
def train(parameters, state, x, action, reward, following, done):
    target = reward + 0.99 * (1 - done) * network.apply(parameters, following).max(-1)

    def loss(parameters):
        chosen = jnp.take_along_axis(network.apply(parameters, x), action[:, None], 1)[
            :, 0
        ]
        return ((chosen - target) ** 2).mean()

    gradient = jax.grad(loss)(parameters)
    change, state = optimizer.update(gradient, state)
    return optax.apply_updates(parameters, change), state


random = np.random.default_rng(0)
env = gym.make("CartPole-v1")
memory = []
observation, _ = env.reset(seed=0)
updates = 0
for step in range(args.steps):
    with cutaway.operation("inference"):
        action = int(np.asarray(q_values(parameters, observation[None])).argmax())
    if random.random() < 0.2:
        action = int(random.integers(2))
    following, reward, terminated, truncated, _ = env.step(action)
    memory.append((observation, action, reward, following, float(terminated)))
    observation = env.reset()[0] if terminated or truncated else following
    if step >= 64 and step % 4 == 0:
        with cutaway.operation("backpropagation"):
            sample = [memory[i] for i in random.integers(len(memory), size=32)]
            batch = [
                np.array(column, dtype=np.float32)
                for column in zip(*sample, strict=True)
            ]
            parameters, state = train(
                parameters, state, batch[0], batch[1].astype(np.int32), *batch[2:]
            )
            updates += 1

print(f"{args.steps} steps, {updates} updates")
