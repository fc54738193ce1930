"""The learner's process: takes unrolls, trains, says how it goes, saves, and ends the run in order."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Protocol

import cutaway
from cutaway import CutawayError

from . import envs
from .config import Config
from .engine import Engine
from .envs import EnvSpec
from .progress import Progress, Reading, Ticker, say
from .statistics import RECENT
from .unrolls import Layout, Unrolls

if TYPE_CHECKING:
    from .learner import Learner
    from .network import RecurrentNet


REPLAY = "replay.npz"
LIMIT_SECONDS = 0.1  # how often the limits are looked at


class Tally(Protocol):
    """What has happened so far."""

    @property
    def steps(self) -> int: ...

    @property
    def episodes(self) -> int: ...

    def mean_return(self, first_env: int = 0) -> float: ...


class Source(Protocol):
    """Where unrolls come from: the processes of this machine, or groups of them that Ray placed."""

    @property
    def restarts(self) -> int: ...

    @property
    def counters(self) -> Tally: ...

    @property
    def started(self) -> bool: ...

    def start(self) -> None: ...

    def take(self, count: int, stop: threading.Event) -> Unrolls | None: ...

    def stop(self) -> None: ...


class Run:
    """One training run, from start to its final line."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.spec = envs.make(config.env, config.seed).spec
        self.net = None if config.emulate else make_net(config, self.spec)
        self.source = self._make_source()
        self.learner = self._make_learner()
        self.stopping = threading.Event()
        self.earlier_steps = 0
        self.updates = 0
        self._saved = time.monotonic()
        self._started = 0.0
        self._board = _Board(config)

    def _make_source(self) -> Source:
        if self.config.ray_groups:
            from .ray_backend import RaySource

            assert self.net is not None
            return RaySource(self.config, self.spec, self.net)
        return Engine(self.config, self.spec, self.net)

    def _make_learner(self) -> Learner:
        config, layout = self.config, Layout.of(self.config, self.spec)
        if config.emulate is not None:
            from .emulated_learner import EmulatedLearner

            assert isinstance(self.source, Engine)
            return EmulatedLearner(config, config.emulate, layout, self.source.lock)
        from .learner import R2D2, Impala

        assert self.net is not None
        return (
            R2D2(config, self.net, layout)
            if config.algorithm == "r2d2"
            else Impala(config, self.net)
        )

    def go(self) -> Reading:
        """Trains until a limit is reached or a signal comes; returns the last reading."""
        if self.config.resume:
            self._resume()
        with self._signals():
            self.source.start()
            progress = Progress(self.spec.action_repeat, self.read)
            tickers = [
                Ticker(self.config.progress_seconds, lambda: say(progress.line())),
                Ticker(LIMIT_SECONDS, self._check_limits),
            ]
            try:
                self._loop()
            finally:
                for ticker in tickers:
                    ticker.stop()
                last, reading = progress.final(), self.read()
                self.source.stop()
                self._board.close()
            self._save()
            say(last)
        return reading

    def _loop(self) -> None:
        config = self.config
        while not self.stopping.is_set():
            with cutaway.operation("unroll_wait"):
                unrolls = self.source.take(config.unrolls_per_update, self.stopping)
            if unrolls is None or not config.train:
                continue
            self.learner.feed(unrolls)
            if not self.learner.ready():
                continue
            scalars = self.learner.update()
            self.updates += 1
            cutaway.iteration()
            self._board.write(scalars, self.read())
            if (
                config.checkpoint_seconds
                and time.monotonic() - self._saved > config.checkpoint_seconds
            ):
                self._save()

    def read(self) -> Reading:
        counters = self.source.counters
        return Reading(
            steps=self.earlier_steps + counters.steps,
            updates=self.updates,
            episodes=counters.episodes,
            mean_return=counters.mean_return(),
            greedy_return=counters.mean_return(self.config.environments // 2),
            restarts=self.source.restarts,
        )

    def _check_limits(self) -> None:
        config, steps, now = self.config, self.source.counters.steps, time.monotonic()
        if not self._started and self.source.started:
            self._started = now
        reached = (
            (config.steps, self.earlier_steps + steps),
            (config.updates, self.updates),
            (config.seconds, now - self._started if self._started else 0.0),
        )
        if (
            any(limit and value >= limit for limit, value in reached)
            or self._good_enough()
        ):
            self.stopping.set()

    def _good_enough(self) -> bool:
        wanted, reading = self.config.stop_at_return, self.read()
        return (
            wanted is not None
            and reading.episodes >= RECENT
            and reading.greedy_return >= wanted
        )

    def _resume(self) -> None:
        from . import checkpoint

        state, self.earlier_steps = checkpoint.load(
            run_directory(self.config), self.config
        )
        self.learner.load_state_dict(state)
        self.updates = int(state["updates"])
        self._resume_replay()

    def _resume_replay(self) -> None:
        path, replay = run_directory(self.config) / REPLAY, self.learner.replay
        if replay is None:
            return
        if not self.config.checkpoint_replay or not path.exists():
            say(
                f"resumed without a replay: it fills to {self.config.replay.minimum} sequences first"
            )
        elif not replay.load(path):
            raise CutawayError(
                f"{path} is of another replay: ask for that size, or leave out --checkpoint-replay."
            )

    def _save(self) -> None:
        if not self.config.directory or self.net is None:
            return
        from . import checkpoint

        with cutaway.operation("checkpoint"):
            steps = self.earlier_steps + self.source.counters.steps
            checkpoint.save(
                run_directory(self.config),
                self.config,
                self.learner.state_dict(),
                steps,
            )
            if self.config.checkpoint_replay and self.learner.replay is not None:
                self.learner.replay.save(run_directory(self.config) / REPLAY)
        self._saved = time.monotonic()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """SIGINT and SIGTERM end the run in order; a second one of a kind does what it always does."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.stopping.set()
            signal.signal(number, before[signal.Signals(number)])

        wanted = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.getsignal(number) for number in wanted}
        for number in wanted:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number in wanted:
                signal.signal(number, before[number])


def make_net(config: Config, spec: EnvSpec) -> RecurrentNet:
    """A network whose weights other processes can share."""
    import torch

    from .network import RecurrentNet

    if config.device.startswith("cuda") and not torch.cuda.is_available():
        raise CutawayError(
            "There is no CUDA device here: use --device cpu or --emulate-device."
        )
    torch.set_num_threads(config.threads)
    torch.manual_seed(config.seed)
    net = RecurrentNet(config, spec).to(config.device)
    net.share_memory()
    return net


def run_directory(config: Config) -> Path:
    if not config.directory:
        raise CutawayError(
            "--resume, --evaluate and --tensorboard need --directory: name the folder of the run."
        )
    return Path(config.directory)


class _Board:
    """TensorBoard scalars, when asked for."""

    def __init__(self, config: Config) -> None:
        self._writer = None
        if config.tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise CutawayError(
                    "--tensorboard needs tensorboard: pip install tensorboard."
                ) from error
            self._writer = SummaryWriter(str(run_directory(config)))

    def write(self, scalars: dict[str, float], reading: Reading) -> None:
        if self._writer is None:
            return
        for name, value in {
            **scalars,
            "return": reading.mean_return,
            "restarts": reading.restarts,
        }.items():
            self._writer.add_scalar(name, value, reading.steps)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def run(config: Config) -> Reading:
    """Trains as `config` says; this process is the learner."""
    multiprocessing.current_process().name = "learner"
    cutaway.describe(
        algorithm=config.algorithm,
        env=config.env,
        actors=config.actors,
        batch=config.inference_batch or "seed",
        batch_timeout_us=config.batch_timeout_us
        if config.batch_rule == "dynamic"
        else None,
        steps_per_update=config.unrolls_per_update * config.unroll
        if config.train
        else 0,
        unroll=config.unroll,
        queue=config.queue,
        burns_time=config.env.startswith("synthetic:"),
        preemptive=config.emulate is None,
    )
    return Run(config).go()
