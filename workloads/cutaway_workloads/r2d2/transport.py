"""How an actor asks for actions: a fixed slot of shared memory, one doorbell for all, a reply semaphore each.

An actor writes observations straight into its slot, raises its `ready` flag and rings the doorbell, on which
nobody sleeps: that costs no system call. The server says in `wanted` how many rings it waits for, and only the
actor that makes them enough wakes it, once for a whole batch. The doorbell is a hint and the flags are the
truth, so that an actor killed between the two loses nothing but its own request. Requests are numbered; a
reply meant for a dead predecessor is ignored.
"""

from __future__ import annotations

import time
from collections import deque
from multiprocessing.synchronize import Semaphore
from typing import NamedTuple

import numpy as np

from .envs import EnvSpec
from .shared import Array, Block, Context, Field, learner_alive

REWARD, DONE, EPISODE_RETURN, EPISODE_STEPS = range(4)  # columns of `scalars`
NEVER = 2**32 - 1  # `wanted` while the server does not sleep: it will look by itself


class Slots:
    """Everything the two sides share; created once, then handed to every process."""

    def __init__(
        self, ctx: Context, spec: EnvSpec, actors: int, envs_per_actor: int
    ) -> None:
        each = (actors, envs_per_actor)
        self.actors, self.envs_per_actor = actors, envs_per_actor
        self.block = Block(
            ctx,
            [
                Field("obs", (*each, *spec.shape), spec.dtype),
                Field("scalars", (*each, 4), "float32"),
                Field("action", each, "int64"),
                Field("ready", (actors,), "uint8"),
                Field("request", (actors,), "uint32"),
                Field("reply", (actors,), "uint32"),
                Field("generation", (actors,), "uint32"),
                Field("closed", (1,), "uint8"),
                Field("wanted", (1,), "uint32"),
            ],
        )
        self.block.arrays()["wanted"][0] = NEVER
        self.doorbell: Semaphore = ctx.Semaphore(0)
        self.enough: Semaphore = ctx.Semaphore(0)
        self.fence: Semaphore = ctx.Semaphore(0)  # the server's own
        self.replies: list[Semaphore] = [ctx.Semaphore(0) for _ in range(actors)]

    def close(self) -> None:
        """Tells both sides to leave and wakes everyone who waits."""
        self.block.arrays()["closed"][0] = 1
        self.enough.release()
        for reply in self.replies:
            reply.release()


class Port:
    """What one actor is given: the shared block and its semaphores, not those of every other actor."""

    def __init__(self, slots: Slots, actor: int, generation: int) -> None:
        self.block, self.actor, self.generation = slots.block, actor, generation
        self.doorbell, self.enough, self.reply = (
            slots.doorbell,
            slots.enough,
            slots.replies[actor],
        )


class Client:
    """The actor's side. `obs`, `reward`, `done`, … are views of its slot, to be written before `ask`.

    Single numbers go through memoryviews: half the cost of NumPy's indexing, and this runs at every step.
    """

    def __init__(self, port: Port, patience: float = 1.0) -> None:
        arrays, i = port.block.arrays(), port.actor
        scalars = arrays["scalars"][i]
        self.obs, self.action = arrays["obs"][i], arrays["action"][i]
        self.reward, self.done = scalars[:, REWARD], scalars[:, DONE]
        self.episode_return, self.episode_steps = (
            scalars[:, EPISODE_RETURN],
            scalars[:, EPISODE_STEPS],
        )
        self._ready, self._closed = (
            arrays["ready"].data[i : i + 1],
            arrays["closed"].data,
        )
        self._request = arrays["request"].data[i : i + 1]
        self._reply = arrays["reply"].data[i : i + 1]
        self._generation, self._life = (
            arrays["generation"].data[i : i + 1],
            port.generation,
        )
        self._ring, self._rings = port.doorbell.release, port.doorbell.get_value
        self._wait = port.reply.acquire
        self._wake, self._wanted = port.enough.release, arrays["wanted"].data
        # Go on where a predecessor stopped: its late reply has another number.
        self._number = self._request[0]
        self._patience = patience

    def ask(self) -> None:
        """Sends what the slot holds."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        self._request[0] = self._number
        self._generation[0] = self._life  # only now: the slot's content is ours
        self._ready[0] = 1
        self._ring()  # an atomic operation: whoever rings last sees every ring before
        if self._rings() >= self._wanted[0]:
            self._wake()

    def receive(self) -> bool:
        """Waits for the actions; False when the run is over. Returns to look at the flag once a while."""
        while not self._closed[0]:
            self._wait(True, self._patience)
            if self._reply[0] == self._number:
                return not self._closed[0]
            if not learner_alive():
                return False
        return False


class Requests(NamedTuple):
    """A batch as the server sees it; but for `actors`, one row an environment."""

    actors: list[int]
    envs: Array
    obs: Array
    scalars: Array

    @property
    def reward(self) -> Array:
        return self.scalars[:, REWARD]

    @property
    def done(self) -> Array:
        """1 where the observation is the first of an episode."""
        return self.scalars[:, DONE]

    @property
    def episode_return(self) -> Array:
        return self.scalars[:, EPISODE_RETURN]

    @property
    def episode_steps(self) -> Array:
        """Length of the episode that just ended, 0 where none did."""
        return self.scalars[:, EPISODE_STEPS]


class Server:
    """The inference side: collects requests first come, first served, and answers them."""

    def __init__(self, slots: Slots) -> None:
        self.arrays = a = slots.block.arrays()
        self._ready, self._closed = a["ready"].data, a["closed"].data
        self._request, self._reply = a["request"].data, a["reply"].data
        self._obs, self._scalars, self._action = (
            a["obs"],
            a["scalars"],
            a["action"].reshape(-1),
        )
        self._shape = a["obs"].shape[2:]
        self._only_obs, self._only_scalars = self._obs[:, 0], self._scalars[:, 0]
        self._wanted, self._sleep = a["wanted"].data, slots.enough.acquire
        self._hush, self._rings = slots.doorbell.acquire, slots.doorbell.get_value
        self._fence = slots.fence
        self._replies = [r.release for r in slots.replies]
        self._per_actor = slots.envs_per_actor
        self._env_of = np.arange(slots.actors * slots.envs_per_actor).reshape(
            slots.actors, -1
        )
        self._pending: deque[int] = deque()
        self._queued = bytearray(slots.actors)
        self._number = [0] * slots.actors
        self.patience = 0.25

    def wait_full(self, envs: int) -> list[int]:
        """Waits until `envs` observations are there, however long that takes (SEED's rule); [] at the end."""
        actors = -(-envs // self._per_actor)
        while self._missing(actors) > 0:
            if not self._hear(actors, self.patience):
                return []
        return [self._pending.popleft() for _ in range(actors)]

    def wait_some(self, envs: int, timeout: float) -> list[int]:
        """Waits for a first request, then at most `timeout` seconds for up to `envs` observations."""
        while self._missing(1) > 0:
            if not self._hear(1, self.patience):
                return []
        actors = max(1, envs // self._per_actor)
        deadline = time.monotonic() + timeout
        while self._missing(actors) > 0 and (left := deadline - time.monotonic()) > 0:
            if not self._hear(actors, left):
                return []
        return [self._pending.popleft() for _ in range(min(actors, len(self._pending)))]

    def _missing(self, actors: int) -> int:
        """How many requests are not there yet; silences the doorbell and looks who is there first."""
        while self._hush(False):
            pass
        self._scan()
        return actors - len(self._pending)

    def _hear(self, actors: int, patience: float) -> bool:
        """Sleeps until so many requests are pending, but not longer than its patience; False at the end."""
        missing = actors - len(self._pending)
        self._wanted[0] = missing
        # Raising a semaphore orders the write above before the look below: whoever rings after it sees what is
        # wanted. A processor that orders less makes a wake-up late by our patience, not lost.
        self._fence.release()
        self._fence.acquire(False)
        woken = self._rings() >= missing or self._sleep(True, patience)
        self._wanted[0] = NEVER
        return not self._closed[0] and (
            woken or patience < self.patience or learner_alive()
        )

    def _scan(self) -> None:
        # On a copy: the actors go on writing. bytes.find is ten times faster than NumPy on so few flags.
        raised = self._ready.tobytes()
        i = raised.find(1)
        while i >= 0:
            self._ready[i] = 0
            if not self._queued[
                i
            ]:  # else its predecessor's request is still in line: it takes that place
                self._queued[i] = 1
                self._pending.append(i)
            i = raised.find(1, i + 1)

    def read(self, actors: list[int]) -> Requests:
        """Copies the requests of these actors out of their slots."""
        for i in actors:
            self._queued[i] = 0
            self._ready[i] = (
                0  # a successor may have asked since the scan: this answers it
            )
            self._number[i] = self._request[i]
        index = np.array(actors)
        if self._per_actor == 1:  # no second axis to fold away
            return Requests(
                actors,
                index,
                self._only_obs.take(index, 0),
                self._only_scalars.take(index, 0),
            )
        obs = self._obs.take(index, 0).reshape(-1, *self._shape)
        scalars = self._scalars.take(index, 0).reshape(-1, 4)
        return Requests(actors, self._env_of.take(index, 0).reshape(-1), obs, scalars)

    def answer(self, requests: Requests, actions: Array) -> None:
        """Writes the actions and wakes the actors."""
        self._action.put(requests.envs, actions)
        for i in requests.actors:
            self._reply[i] = self._number[i]
            self._replies[i]()
