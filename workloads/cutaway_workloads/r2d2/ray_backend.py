"""The same program on Ray: groups of actors on the nodes of a cluster, unrolls carried in batches.

A group is a complete engine (slots, actors, inference server) inside one Ray actor, so that a step never
crosses a node. One Ray call brings `ray_batch` unrolls to the learner and takes the newest weights along:
inference in a group lags the learner by at most the calls in flight. A group that dies is placed anew.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import cutaway
from cutaway import CutawayError

from .config import Config
from .engine import PATIENCE, Engine
from .envs import EnvSpec
from .network import RecurrentNet
from .shared import Array
from .unrolls import Unrolls

Weights = dict[str, Array]


@dataclass(frozen=True)
class Report:
    """What a group says of itself with each batch."""

    steps: int
    episodes: int
    returns: tuple[float, float]
    restarts: int


class Group:
    """The body of the Ray actor."""

    def __init__(self, config: Config, spec: EnvSpec, index: int) -> None:
        from .train import make_net

        multiprocessing.current_process().name = f"group-{index:02d}"
        # Child processes would otherwise run Ray's worker script as their main module.
        main = sys.modules["__main__"]
        if hasattr(main, "__file__"):
            del main.__file__
        config = replace(config, seed=config.seed + 7919 * index)
        self._net = make_net(config, spec)
        self._engine = Engine(config, spec, self._net)
        self._stop = threading.Event()
        self._greedy_from = config.environments // 2
        self._loaded = False

    def collect(self, count: int, weights: Weights) -> tuple[Unrolls | None, Report]:
        """Takes the weights over, then waits for `count` unrolls; None when stopped meanwhile."""
        self._load(weights)
        unrolls = self._engine.take(count, self._stop)
        counters = self._engine.counters
        returns = (counters.mean_return(), counters.mean_return(self._greedy_from))
        return unrolls, Report(
            counters.steps, counters.episodes, returns, self._engine.restarts
        )

    def _load(self, weights: Weights) -> None:
        import torch

        with cutaway.operation("sync"), torch.no_grad():
            for name, value in self._net.state_dict().items():
                value.copy_(torch.tensor(weights[name]))
        if not self._loaded:
            self._engine.start()
            self._loaded = True

    def where(self) -> tuple[str, int]:
        """The node and the process this group runs in."""
        import ray

        return str(ray.get_runtime_context().get_node_id()), os.getpid()

    def stop(self) -> None:
        self._stop.set()
        self._engine.stop()


@dataclass
class RayCounters:
    """The groups' counters added up; a dead group's last word stays in the sum."""

    reports: dict[int, Report] = field(default_factory=dict)
    lost: list[Report] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return sum(r.steps for r in self._all())

    @property
    def episodes(self) -> int:
        return sum(r.episodes for r in self._all())

    @property
    def restarts(self) -> int:
        return sum(r.restarts for r in self._all())

    def mean_return(self, first_env: int = 0) -> float:
        values = [r.returns[1 if first_env else 0] for r in list(self.reports.values())]
        known = [v for v in values if not np.isnan(v)]
        return float(np.mean(known)) if known else float("nan")

    def _all(self) -> list[Report]:
        return [*self.reports.values(), *self.lost]


class RaySource:
    """Unrolls from Ray groups; each has one call in flight at any time."""

    def __init__(self, config: Config, spec: EnvSpec, net: RecurrentNet) -> None:
        try:
            import ray
        except ImportError as error:
            raise CutawayError(
                "--ray needs Ray: pip install 'cutaway[ray]'."
            ) from error
        self._ray: Any = ray
        self._config, self._spec, self._net = config, spec, net
        self.counters = RayCounters()
        self.groups: dict[int, Any] = {}
        self._flying: dict[Any, int] = {}
        self._spare: list[Unrolls] = []
        self._weights: Any = None
        self._started_ray = False
        self._deaths = 0

    @property
    def restarts(self) -> int:
        return self.counters.restarts + self._deaths

    @property
    def started(self) -> bool:
        return self.counters.steps > 0

    def start(self) -> None:
        if not self._ray.is_initialized():
            self._ray.init(
                address=self._config.ray_address or None,
                log_to_driver=True,
                include_dashboard=False,
            )
            self._started_ray = True
        self._publish()
        for index in range(self._config.ray_groups):
            self._place(index)

    def _place(self, index: int) -> None:
        gpus = 1 if self._config.device.startswith("cuda") else 0
        remote = self._ray.remote(Group).options(
            num_cpus=1, num_gpus=gpus, scheduling_strategy="SPREAD", max_concurrency=2
        )
        self.groups[index] = remote.remote(
            self._config, self._spec, index + 100 * self._deaths
        )
        self._ask(index)

    def _ask(self, index: int) -> None:
        call = self.groups[index].collect.remote(self._config.ray_batch, self._weights)
        self._flying[call] = index

    def _publish(self) -> None:
        """Puts the weights into Ray's store once; every group of a node reads the same copy."""
        with cutaway.operation("sync"):
            weights = {
                name: value.detach().cpu().numpy().copy()
                for name, value in self._net.state_dict().items()
            }
            self._weights = self._ray.put(weights)

    def take(self, count: int, stop: threading.Event) -> Unrolls | None:
        """The next `count` unrolls of whichever groups are first; None when `stop` was set."""
        self._publish()
        while sum(len(u["action"]) for u in self._spare) < count:
            done, _ = self._ray.wait(
                list(self._flying), num_returns=1, timeout=PATIENCE
            )
            if stop.is_set():
                return None
            for call in done:
                self._receive(call)
        whole = {
            name: np.concatenate([u[name] for u in self._spare])
            for name in self._spare[0]
        }
        self._spare = [{name: array[count:] for name, array in whole.items()}]
        return {name: array[:count] for name, array in whole.items()}

    def _receive(self, call: Any) -> None:
        index = self._flying.pop(call)
        try:
            unrolls, report = self._ray.get(call)
        except self._ray.exceptions.RayActorError as error:
            self._deaths += 1
            if self._deaths > 10 * self._config.ray_groups:
                raise CutawayError(f"Ray groups keep dying: {error}") from error
            if index in self.counters.reports:
                self.counters.lost.append(self.counters.reports.pop(index))
            self._place(index)
            return
        self.counters.reports[index] = report
        if unrolls is not None:
            self._spare.append(unrolls)
            self._ask(index)

    def stop(self) -> None:
        calls = [group.stop.remote() for group in self.groups.values()]
        self._ray.wait(calls, num_returns=len(calls), timeout=10.0)
        for group in self.groups.values():
            self._ray.kill(group)
        if self._started_ray:
            self._ray.shutdown()
