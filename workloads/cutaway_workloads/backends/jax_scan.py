"""JAX with lax.scan: all updates of an iteration in one compiled call."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from . import jax_jit
from .agent import Batch, Replay, Settings
from .jax_jit import State, update_actor, update_critics


@partial(jax.jit, static_argnums=0)
def learn(
    s: Settings, state: State, batches: Batch, with_actor: Any
) -> tuple[State, Any]:
    def step(state: State, given: tuple[Batch, Any]) -> tuple[State, Any]:
        batch, actor_too = given
        state, critic_loss = update_critics(s, state, batch)
        state, actor_loss = jax.lax.cond(
            actor_too,
            lambda state: update_actor(s, state, batch),
            lambda state: (state, jnp.zeros((), s.dtype)),
            state,
        )
        return state, (critic_loss, actor_loss)

    return jax.lax.scan(step, state, (batches, with_actor))


class BackendAgent(jax_jit.BackendAgent):
    """The same functions, scanned over the batches."""

    def learn(self, replay: Replay, updates: int) -> list[tuple[float, float]]:
        batches = Batch(
            *map(np.stack, zip(*(replay.sample() for _ in range(updates)), strict=True))
        )
        numbers = np.arange(self.updates + 1, self.updates + updates + 1)
        self.updates += updates
        self.state, losses = learn(
            self.settings, self.state, batches, numbers % self.settings.delay == 0
        )
        return list(
            zip(*(np.asarray(column).tolist() for column in losses), strict=True)
        )
