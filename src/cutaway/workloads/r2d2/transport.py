"""How an actor asks for actions: a fixed slot of shared memory, one doorbell for all, a reply semaphore each.

An actor writes observations straight into its slot, raises its `ready` flag and rings the doorbell. The
server treats the doorbell as a hint and the flags as the truth, so that an actor killed between the two
loses nothing but its own request. Requests are numbered; a reply meant for a dead predecessor is ignored.
"""

from __future__ import annotations

import time
from collections import deque
from multiprocessing.synchronize import Semaphore
from typing import NamedTuple

import numpy as np

from .envs import EnvSpec
from .shared import Array, Block, Context, Field, learner_alive


class Slots:
    """Everything the two sides share; created once, then handed to every process."""

    def __init__(self, ctx: Context, spec: EnvSpec, actors: int, envs_per_actor: int) -> None:
        each = (actors, envs_per_actor)
        self.actors, self.envs_per_actor = actors, envs_per_actor
        self.block = Block(
            ctx,
            [
                Field("obs", (*each, *spec.shape), spec.dtype),
                Field("reward", each, "float32"),
                Field("done", each, "uint8"),
                Field("episode_return", each, "float32"),
                Field("episode_steps", each, "int32"),
                Field("action", each, "int64"),
                Field("ready", (actors,), "uint8"),
                Field("request", (actors,), "uint32"),
                Field("reply", (actors,), "uint32"),
                Field("generation", (actors,), "uint32"),
                Field("closed", (1,), "uint8"),
            ],
        )
        self.doorbell: Semaphore = ctx.Semaphore(0)
        self.replies: list[Semaphore] = [ctx.Semaphore(0) for _ in range(actors)]

    def close(self) -> None:
        """Tells both sides to leave and wakes everyone who waits."""
        self.block.arrays()["closed"][0] = 1
        self.doorbell.release()
        for reply in self.replies:
            reply.release()


class Port:
    """What one actor is given: the shared block and its two semaphores, not those of every other actor."""

    def __init__(self, slots: Slots, actor: int, generation: int) -> None:
        self.block, self.actor, self.generation = slots.block, actor, generation
        self.doorbell, self.reply = slots.doorbell, slots.replies[actor]


class Client:
    """The actor's side. `obs`, `reward`, `done`, … are views of its slot, to be written before `ask`."""

    def __init__(self, port: Port, patience: float = 1.0) -> None:
        arrays, i = port.block.arrays(), port.actor
        self.obs, self.reward, self.done = arrays["obs"][i], arrays["reward"][i], arrays["done"][i]
        self.episode_return, self.episode_steps = arrays["episode_return"][i], arrays["episode_steps"][i]
        self.action = arrays["action"][i]
        self._ready, self._closed = arrays["ready"][i : i + 1], arrays["closed"]
        self._request, self._reply = arrays["request"][i : i + 1], arrays["reply"][i : i + 1]
        self._ring, self._wait = port.doorbell.release, port.reply.acquire
        self._number = int(
            self._request[0]
        )  # go on where a predecessor stopped: its late reply has another number
        self._patience = patience
        self._generation, self._life = arrays["generation"][i : i + 1], port.generation

    def ask(self) -> None:
        """Sends what the slot holds."""
        self._number = (self._number + 1) & 0xFFFFFFFF
        self._request[0] = self._number
        self._generation[0] = self._life  # only now: the slot's content is ours
        self._ready[0] = 1
        self._ring()

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
    """A batch as the server sees it, one row an environment."""

    actors: Array
    envs: Array
    obs: Array
    reward: Array
    done: Array
    episode_steps: Array
    episode_return: Array


class Server:
    """The inference side: collects requests first come, first served, and answers them."""

    def __init__(self, slots: Slots) -> None:
        self.arrays = a = slots.block.arrays()
        self._ready, self._closed = a["ready"], a["closed"]
        self._listen = slots.doorbell.acquire
        self._replies = [r.release for r in slots.replies]
        self._per_actor = slots.envs_per_actor
        self._pending: deque[int] = deque()
        self._env_of = np.arange(slots.actors * slots.envs_per_actor).reshape(slots.actors, -1)
        self._number = np.zeros(slots.actors, dtype=np.uint32)
        self._queued = np.zeros(slots.actors, dtype=np.bool_)
        self.patience = 0.25

    def wait_full(self, envs: int) -> list[int]:
        """Waits until `envs` observations are there, however long that takes (SEED's rule); [] at the end."""
        actors = -(-envs // self._per_actor)
        while len(self._pending) < actors:
            if not self._hear():
                return []
        return [self._pending.popleft() for _ in range(actors)]

    def wait_some(self, envs: int, timeout: float) -> list[int]:
        """Waits for a first request, then at most `timeout` seconds for up to `envs` observations."""
        if not self._pending and not self.wait_first():
            return []
        actors = max(1, envs // self._per_actor)
        deadline = time.monotonic() + timeout
        while len(self._pending) < actors:
            left = deadline - time.monotonic()
            if left <= 0 or not self._listen(True, left):
                break
            self._scan()
        self._scan()
        return [self._pending.popleft() for _ in range(min(actors, len(self._pending)))]

    def wait_first(self) -> bool:
        while not self._pending:
            if not self._hear():
                return False
        return True

    def _hear(self) -> bool:
        """Waits for the doorbell, not forever; False at the end."""
        rung = self._listen(True, self.patience)
        self._scan()
        return not self._closed[0] and (rung or learner_alive())

    def _scan(self) -> None:
        # A copy first: np.flatnonzero raises when another process writes the flags between its two passes.
        raised = np.flatnonzero(self._ready.copy())
        if raised.size:
            self._ready[raised] = 0
            # A restarted actor may ask while its predecessor's request is still in line: it takes that place.
            self._pending.extend(raised[~self._queued[raised]].tolist())
            self._queued[raised] = True

    def read(self, actors: list[int]) -> Requests:
        """Copies the requests of these actors out of their slots."""
        index = np.asarray(actors)
        self._queued[index] = False
        self._ready[index] = 0  # a successor may have asked since the scan: this answers it
        a, n = self.arrays, index.size * self._per_actor
        self._number[index] = a["request"][index]
        obs = a["obs"][index]
        return Requests(
            index,
            self._env_of[index].reshape(n),
            obs.reshape(n, *obs.shape[2:]),
            a["reward"][index].reshape(n),
            a["done"][index].reshape(n),
            a["episode_steps"][index].reshape(n),
            a["episode_return"][index].reshape(n),
        )

    def answer(self, requests: Requests, actions: Array) -> None:
        """Writes the actions and wakes the actors."""
        index = requests.actors
        self.arrays["action"][index] = actions.reshape(index.size, self._per_actor)
        self.arrays["reply"][index] = self._number[index]
        replies = self._replies
        for i in index.tolist():
            replies[i]()
