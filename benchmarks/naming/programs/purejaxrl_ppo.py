"""PPO as PureJaxRL writes it: environments, rollouts and updates in one jitted function; Python only calls it."""

from typing import NamedTuple

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from benchmarks.naming.truth import iteration, operation
from flax.training.train_state import TrainState

FRAMEWORK = "PureJaxRL style"

ENVS, STEPS, EPOCHS, UPDATES, CALLS, GAMMA, LAMBDA, CLIP = (
    64,
    64,
    4,
    5,
    20,
    0.99,
    0.95,
    0.2,
)


class Transition(NamedTuple):
    obs: jax.Array
    action: jax.Array
    log_prob: jax.Array
    value: jax.Array
    reward: jax.Array
    done: jax.Array


class ActorCritic(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.tanh(nn.Dense(64)(x))
        x = nn.tanh(nn.Dense(64)(x))
        return nn.Dense(2)(x), nn.Dense(1)(x).squeeze(-1)


def start(key):
    return jax.random.uniform(key, (ENVS, 4), minval=-0.05, maxval=0.05)


def cartpole(state, action, key):
    """The classic equations; a pole that fell stands up again."""
    x, v, angle, spin = state.T
    force = jnp.where(action == 1, 10.0, -10.0)
    pull = (force + 0.05 * spin**2 * jnp.sin(angle)) / 1.1
    turn = (9.8 * jnp.sin(angle) - jnp.cos(angle) * pull) / (
        0.5 * (4 / 3 - 0.1 * jnp.cos(angle) ** 2 / 1.1)
    )
    push = pull - 0.05 * turn * jnp.cos(angle) / 1.1
    moved = jnp.stack(
        [x + 0.02 * v, v + 0.02 * push, angle + 0.02 * spin, spin + 0.02 * turn], axis=1
    )
    done = (jnp.abs(moved[:, 0]) > 2.4) | (jnp.abs(moved[:, 2]) > 0.21)
    return jnp.where(done[:, None], start(key), moved), jnp.ones(ENVS), done


def loss_of(params, apply, batch, advantage, target):
    logits, value = apply(params, batch.obs)
    log_probs = jax.nn.log_softmax(logits)
    chosen = jnp.take_along_axis(log_probs, batch.action[..., None], -1).squeeze(-1)
    ratio = jnp.exp(chosen - batch.log_prob)
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
    actor = -jnp.minimum(
        ratio * advantage, jnp.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage
    ).mean()
    entropy = -(jnp.exp(log_probs) * log_probs).sum(-1).mean()
    return actor + 0.5 * ((value - target) ** 2).mean() - 0.01 * entropy


@jax.jit
def train(train_state, env_state, key):
    def step(carry, _):
        train_state, obs, key = carry
        key, act, reset = jax.random.split(key, 3)
        logits, value = train_state.apply_fn(train_state.params, obs)
        action = jax.random.categorical(act, logits)
        log_prob = jnp.take_along_axis(
            jax.nn.log_softmax(logits), action[:, None], -1
        ).squeeze(-1)
        after, reward, done = cartpole(obs, action, reset)
        return (train_state, after, key), Transition(
            obs, action, log_prob, value, reward, done
        )

    def update(carry, _):
        (train_state, obs, key), batch = jax.lax.scan(step, carry, None, STEPS)
        _, last = train_state.apply_fn(train_state.params, obs)

        def accumulate(carry, t):
            advantage, following = carry
            alive = 1 - t.done
            delta = t.reward + GAMMA * following * alive - t.value
            advantage = delta + GAMMA * LAMBDA * alive * advantage
            return (advantage, t.value), advantage

        _, advantages = jax.lax.scan(
            accumulate, (jnp.zeros(ENVS), last), batch, reverse=True
        )

        def epoch(train_state, _):
            targets = advantages + batch.value
            grads = jax.grad(loss_of)(
                train_state.params, train_state.apply_fn, batch, advantages, targets
            )
            return train_state.apply_gradients(grads=grads), None

        train_state, _ = jax.lax.scan(epoch, train_state, None, EPOCHS)
        return (train_state, obs, key), batch.done.sum()

    return jax.lax.scan(update, (train_state, env_state, key), None, UPDATES)


key = jax.random.PRNGKey(1)
network = ActorCritic()
with operation("compile"):
    params = network.init(key, jnp.zeros((1, 4)))
train_state = TrainState.create(
    apply_fn=network.apply, params=params, tx=optax.adam(3e-4)
)
env_state = start(key)
for call in range(CALLS):
    iteration()
    # One function that steps environments, acts and learns: nobody can tell its parts apart from outside. The first call
    # compiles it.
    with operation("training program" if call else "compile"):
        (train_state, env_state, key), falls = train(train_state, env_state, key)
        falls.block_until_ready()
