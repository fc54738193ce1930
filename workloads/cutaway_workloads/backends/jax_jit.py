"""JAX: pure functions of the state, compiled by jax.jit; one call an update."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from .agent import Agent, Batch, Floats, Settings, Weights


class State(NamedTuple):
    """Everything that an update changes."""

    actor: Any
    critics: Any
    target_actor: Any
    target_critics: Any
    actor_optimizer: Any
    critic_optimizer: Any


def network(layers: Any, x: Any) -> Any:
    for weight, bias in layers[:-1]:
        x = jax.nn.relu(x @ weight + bias)
    weight, bias = layers[-1]
    return x @ weight + bias


def policy(actor: Any, observation: Any) -> Any:
    return jnp.tanh(network(actor, observation))


def value(critic: Any, observation: Any, action: Any) -> Any:
    return network(critic, jnp.concatenate([observation, action], -1))


def adam(s: Settings) -> optax.GradientTransformation:
    return optax.adam(s.learning_rate, eps=s.epsilon)


def update_critics(s: Settings, state: State, batch: Batch) -> tuple[State, Any]:
    smoothing = jnp.clip(
        s.smoothing * batch.noise, -s.smoothing_limit, s.smoothing_limit
    )
    next_action = jnp.clip(
        policy(state.target_actor, batch.next_observation) + smoothing, -1, 1
    )
    next_values = [
        value(critic, batch.next_observation, next_action)
        for critic in state.target_critics
    ]
    target = batch.reward + s.discount * (1 - batch.ended) * jnp.stack(next_values).min(
        0
    )

    def loss(critics: Any) -> Any:
        values = [value(critic, batch.observation, batch.action) for critic in critics]
        return sum(jnp.mean((v - target) ** 2) for v in values)

    found, gradient = jax.value_and_grad(loss)(state.critics)
    change, optimizer = adam(s).update(gradient, state.critic_optimizer)
    return state._replace(
        critics=optax.apply_updates(state.critics, change), critic_optimizer=optimizer
    ), found


def update_actor(s: Settings, state: State, batch: Batch) -> tuple[State, Any]:
    def loss(actor: Any) -> Any:
        return -value(
            state.critics[0], batch.observation, policy(actor, batch.observation)
        ).mean()

    found, gradient = jax.value_and_grad(loss)(state.actor)
    change, optimizer = adam(s).update(gradient, state.actor_optimizer)
    actor = optax.apply_updates(state.actor, change)
    return state._replace(
        actor=actor,
        actor_optimizer=optimizer,
        target_actor=optax.incremental_update(actor, state.target_actor, s.polyak),
        target_critics=optax.incremental_update(
            state.critics, state.target_critics, s.polyak
        ),
    ), found


@partial(jax.jit, static_argnums=(0, 3))
def update(
    s: Settings, state: State, batch: Batch, with_actor: bool
) -> tuple[State, Any, Any]:
    state, critic_loss = update_critics(s, state, batch)
    if not with_actor:
        return state, critic_loss, 0.0
    state, actor_loss = update_actor(s, state, batch)
    return state, critic_loss, actor_loss


jitted_policy = jax.jit(policy)


class BackendAgent(Agent):
    """Holds the state; the functions above do the work."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        super().__init__(settings)
        if settings.dtype == "float64":
            jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]
        actor, critics = jax.tree.map(jnp.asarray, (weights.actor, weights.critics))
        self.state = State(actor, critics, actor, critics, adam(settings).init(actor), adam(settings).init(critics))  # fmt: skip

    def act(self, observation: Floats) -> Floats:
        return np.asarray(jitted_policy(self.state.actor, observation))

    def update(self, batch: Batch, with_actor: bool) -> tuple[Any, Any]:
        self.state, critic_loss, actor_loss = update(
            self.settings, self.state, batch, with_actor
        )
        return critic_loss, actor_loss

    def weights(self) -> Weights:
        return Weights(
            *jax.tree.map(np.asarray, (self.state.actor, self.state.critics))
        )
