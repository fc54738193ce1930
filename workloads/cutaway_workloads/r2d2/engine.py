"""Starts the inference server and the actors of one machine, and keeps them alive."""

from __future__ import annotations

import threading
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING

from cutaway import CutawayError

from . import actor, inference
from .actor import ActorArguments
from .config import Config
from .envs import EnvSpec
from .inference import InferenceArguments
from .shared import context
from .statistics import Statistics
from .transport import Port, Slots
from .unrolls import Layout, UnrollQueue, Unrolls

if TYPE_CHECKING:
    from .network import RecurrentNet

GIVE_UP = 3  # deaths of one actor without a single step in between
PATIENCE = 0.25


class Engine:
    """Actors → slots → inference → unroll queue, on this machine.

    `net` must lie in shared memory (or on a GPU): the inference process uses the very same weights.
    """

    def __init__(self, config: Config, spec: EnvSpec, net: RecurrentNet | None) -> None:
        self.config, self.layout = config, Layout.of(config, spec)
        self._ctx = context()
        self.slots = Slots(self._ctx, spec, config.actors, config.envs_per_actor)
        self._asked = self.slots.block.arrays()["request"]
        self.queue = UnrollQueue(self._ctx, self.layout, config.queue)
        statistics = Statistics(self._ctx)
        self.counters = statistics.open()
        self.lock = self._ctx.Lock()
        arguments = InferenceArguments(
            config, self.slots, self.queue, statistics, net, self.lock
        )
        self._inference: BaseProcess = self._ctx.Process(
            target=inference.run, args=(arguments,), name="inference"
        )
        self.actors: list[BaseProcess] = []
        self._deaths = [
            (0, -1)
        ] * config.actors  # deaths in a row, request number at the last one
        self.restarts = 0
        self.failure = ""
        self._ending = threading.Event()
        self._supervisor = threading.Thread(
            target=self._supervise, name="supervisor", daemon=True
        )

    def start(self) -> None:
        self._inference.start()
        self.actors = [self._start_actor(i, 1) for i in range(self.config.actors)]
        self._supervisor.start()

    @property
    def started(self) -> bool:
        """Whether every actor has been answered and has stepped."""
        return bool((self._asked > 1).all())

    def take(self, count: int, stop: threading.Event) -> Unrolls | None:
        """The next `count` unrolls; None when `stop` was set first. Raises when the run cannot go on."""
        unrolls = self.layout.zeros(count)
        for row in range(count):
            while not self.queue.get(unrolls, row, PATIENCE):
                if self.failure:
                    raise CutawayError(self.failure)
                if stop.is_set():
                    return None
            if stop.is_set():
                return None
        return unrolls

    def stop(self) -> None:
        """Ends every process; those that do not leave by themselves are terminated."""
        self._ending.set()
        self.slots.close()
        self.queue.close()
        if self._supervisor.is_alive():
            self._supervisor.join()
        for process in [*self.actors, self._inference]:
            if process.pid is None:
                continue
            process.join(5.0)
            if process.is_alive():
                process.terminate()
                process.join()

    def _start_actor(self, index: int, generation: int) -> BaseProcess:
        config = self.config
        seed = (
            config.seed * 100_003 + generation - 1
        ) * config.environments + index * config.envs_per_actor
        port = Port(self.slots, index, generation)
        arguments = ActorArguments(
            port, config.env, config.envs_per_actor, seed % 2**31
        )
        process = self._ctx.Process(
            target=actor.run, args=(arguments,), name=f"actor-{index:02d}"
        )
        process.start()
        return process

    def _supervise(self) -> None:
        generation = [1] * len(self.actors)
        while not self._ending.is_set():
            dead = wait(
                [p.sentinel for p in (*self.actors, self._inference)], timeout=PATIENCE
            )
            if self._ending.is_set() or self.failure:
                return
            if self._inference.sentinel in dead:
                self._fail(
                    f"The inference process died (exit code {self._inference.exitcode}): see the error above."
                )
                return
            for i, process in enumerate(self.actors):
                if process.sentinel in dead and self._may_restart(i, process):
                    generation[i] += 1
                    self.restarts += 1
                    self.actors[i] = self._start_actor(i, generation[i])

    def _may_restart(self, index: int, process: BaseProcess) -> bool:
        process.join()
        request = int(self._asked[index])
        deaths, before = self._deaths[index]
        deaths = 1 if request != before else deaths + 1
        self._deaths[index] = (deaths, request)
        if deaths < GIVE_UP:
            return True
        self._fail(
            f"Actor {index} died {deaths} times in a row without a step (exit code {process.exitcode}): "
            "see the error above, or try another --env."
        )
        return False

    def _fail(self, message: str) -> None:
        self.failure = message
