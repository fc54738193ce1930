"""A policy gradient in JAX in a world whose step takes key, state and action, jitted apart from policy and update."""

import jax
import jax.numpy as jnp
from benchmarks.naming.truth import iteration, operation

FRAMEWORK = "JAX, own world"
ENVS, STEPS, ITERATIONS, SIZE = 256, 32, 60, 16


class World:
    def reset(self, key):
        return jax.random.normal(key, (ENVS, SIZE))

    def step(self, key, state, action):
        moved = state
        for _ in range(12):
            moved = jnp.tanh(moved + 0.1 * jnp.roll(moved, 1, axis=-1))
        moved = moved + 0.1 * action
        reward = -jnp.square(moved).mean(-1)
        return moved, moved, reward, jnp.abs(moved).max(-1) > 5, {}


world = World()
step = jax.jit(world.step)


def mean_of(weights, seen):
    hidden = jnp.tanh(seen @ weights["first"])
    return hidden @ weights["second"]


@jax.jit
def act(weights, key, seen):
    mean = mean_of(weights, seen)
    return mean + 0.3 * jax.random.normal(key, mean.shape)


def loss_of(weights, seen, taken, advantages):
    distance = jnp.square(mean_of(weights, seen) - taken).sum(-1)
    return (distance * advantages).mean()


@jax.jit
def learn(weights, seen, taken, rewards):
    returns = jnp.cumsum(rewards[::-1], axis=0)[::-1]
    advantages = (returns - returns.mean()) / (returns.std() + 1e-6)
    gradients = jax.grad(loss_of)(weights, seen, taken, advantages)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, gradients)


key = jax.random.PRNGKey(1)
weights = {
    "first": jax.random.normal(key, (SIZE, 256)) * 0.1,
    "second": jax.random.normal(key, (256, SIZE)) * 0.1,
}
state = seen = world.reset(key)
for _ in range(ITERATIONS):
    iteration()
    kept = []
    for _ in range(STEPS):
        with operation("inference"):
            key, now = jax.random.split(key)
            action = act(weights, now, seen).block_until_ready()
        with operation("simulation"):
            before = seen
            seen, state, reward, over, _ = step(now, state, action)
            reward.block_until_ready()
        kept.append((before, action, reward))
    with operation("backpropagation"):
        batch = [jnp.stack(part) for part in zip(*kept, strict=True)]
        weights = learn(weights, *batch)
        jax.block_until_ready(weights)
