"""The inference server's process: batches requests, answers them, and turns the experience into unrolls."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from multiprocessing.synchronize import Lock
from typing import TYPE_CHECKING

import numpy as np

import cutaway

from .config import Config
from .shared import Array
from .statistics import Statistics
from .transport import Requests, Server, Slots
from .unrolls import UnrollQueue, UnrollStore

if TYPE_CHECKING:
    from .network import RecurrentNet
    from .policy import Policy


@dataclass(frozen=True)
class InferenceArguments:
    """What the inference process is started with; `net` shares its memory with the learner's."""

    config: Config
    slots: Slots
    queue: UnrollQueue
    statistics: Statistics
    net: RecurrentNet | None
    lock: Lock


def run(arguments: InferenceArguments) -> None:
    """Body of the process; returns when the slots are closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    InferenceServer(arguments, make_policy(arguments)).serve()


def make_policy(arguments: InferenceArguments) -> Policy:
    config = arguments.config
    if config.emulate is not None:
        from .emulation import Accelerator, EmulatedPolicy

        accelerator = Accelerator(config.emulate, arguments.lock)
        return EmulatedPolicy(accelerator, arguments.queue.layout, config.seed)
    import torch

    from .policy import TorchPolicy

    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    assert arguments.net is not None
    return TorchPolicy(config, arguments.net)


class InferenceServer:
    """The loop: wait for a batch, compute, answer, store."""

    def __init__(self, arguments: InferenceArguments, policy: Policy) -> None:
        self._config, self._policy, self._queue = (
            arguments.config,
            policy,
            arguments.queue,
        )
        self._server = Server(arguments.slots)
        self._store = UnrollStore(arguments.queue.layout, arguments.config.environments)
        self._counters = arguments.statistics.open()
        self._generation = np.zeros(arguments.config.actors, dtype=np.uint32)

    def serve(self) -> None:
        while actors := self._collect():
            with cutaway.operation("inference"):
                requests = self._server.read(actors)
                self._renew(requests)
                starting = self._store.starting(requests.envs)
                if starting.size:
                    self._store.remember(starting, self._policy.state(starting))
                actions, output = self._policy.act(requests)
                self._server.answer(requests, actions)
            with cutaway.operation("replay"):
                if not self._keep(requests, actions, output):
                    return

    def _collect(self) -> list[int]:
        with cutaway.operation("batch_wait"):
            if self._config.batch_rule == "seed":
                actors = self._server.wait_full(self._config.inference_envs)
            else:
                timeout = self._config.batch_timeout_us * 1e-6
                actors = self._server.wait_some(self._config.inference_envs, timeout)
        return actors

    def _renew(self, requests: Requests) -> None:
        """Forgets everything about the environments of an actor that was restarted."""
        actors = np.asarray(requests.actors)
        now = self._server.arrays["generation"][actors]
        changed = actors[now != self._generation[actors]]
        if changed.size:
            per_actor = self._config.envs_per_actor
            envs = (changed[:, None] * per_actor + np.arange(per_actor)).reshape(-1)
            self._store.reset(envs)
            self._policy.reset(envs)
            self._generation[changed] = self._server.arrays["generation"][changed]

    def _keep(self, requests: Requests, actions: Array, output: Array) -> bool:
        """Stores the step; False when the queue was closed while it was full."""
        step = {
            "obs": requests.obs,
            "reward": requests.reward,
            "done": requests.done,
            "action": actions,
            "output": output,
        }
        complete = self._store.append(requests.envs, step)
        self._count(requests)
        return all(self._store.finish(env, self._queue.put) for env in complete)

    def _count(self, requests: Requests) -> None:
        counters = self._counters
        counters.steps += len(requests.envs)
        counters.batches += 1
        if requests.done.any():
            for env, steps, score in zip(
                requests.envs,
                requests.episode_steps,
                requests.episode_return,
                strict=True,
            ):
                if steps:
                    counters.episode(int(env), float(score))
