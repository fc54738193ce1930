"""Self-play workers, each with networks of its own; or one inference server for all of them. They live as long as the run."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

import cutaway

from .game import Board, Floats
from .network import Network, evaluator
from .play import match, self_play
from .search import Search

PLAYERS = ("best", "candidate")


@dataclass(frozen=True)
class Config:
    """One run; `--help` says what each setting means."""

    size: int = 9
    komi: float = 7.5
    workers: int = 16
    generations: int = 3
    games: int = 32
    matches: int = 20
    simulations: int = 64
    leaves: int = 8
    channels: int = 32
    blocks: int = 3
    steps: int = 200
    batch: int = 64
    capacity: int = 20_000
    server: bool = False
    device: str = "cpu"
    seconds: float = 0.0
    seed: int = 1

    @property
    def board(self) -> Board:
        return Board(self.size, self.komi)

    @property
    def search(self) -> Search:
        return Search(self.board, self.simulations, self.leaves)

    def network(self) -> Network:
        return Network(self.board, self.channels, self.blocks)


class Remote:
    """Asks the server, as if it were a network."""

    def __init__(self, connection: Connection, name: str) -> None:
        self._connection, self._name = connection, name

    def __call__(self, planes: Floats) -> tuple[Floats, Floats]:
        with cutaway.operation("inference"):
            self._connection.send((self._name, planes))
            answer: tuple[Floats, Floats] = self._connection.recv()
        return answer


def serve(config: Config, connections: Sequence[Connection]) -> None:
    """One process with the only networks: answers all requests that wait, together; the first connection gives orders."""
    players = {name: evaluator(config.network(), config.device) for name in PLAYERS}
    orders, *clients = connections
    while True:
        ready: list[Any] = wait([orders, *clients])
        if orders in ready:
            order = orders.recv()
            if order is None:
                return
            for name, path in order.items():
                players[name].load(path)
            orders.send(True)
            continue
        asked = [(connection, *connection.recv()) for connection in ready]
        for name in PLAYERS:
            mine = [
                (connection, planes) for connection, of, planes in asked if of == name
            ]
            if not mine:
                continue
            policies, values = players[name](
                np.concatenate([planes for _, planes in mine])
            )
            ends = np.cumsum([len(planes) for _, planes in mine])[:-1]
            for (connection, _), answer in zip(
                mine,
                zip(np.split(policies, ends), np.split(values, ends), strict=True),
                strict=True,
            ):
                connection.send(answer)


def work(
    config: Config, number: int, orders: Connection, server: Connection | None
) -> None:
    """One worker: plays what it is ordered to, and sends the outcome back."""
    rng = np.random.default_rng((config.seed, number))
    own = (
        {name: evaluator(config.network(), config.device) for name in PLAYERS}
        if server is None
        else {}
    )
    players: Any = own or {
        name: Remote(server, name) for name in PLAYERS if server is not None
    }
    while (order := orders.recv()) is not None:
        phase, games, weights = order
        with cutaway.phase(phase):
            for name, player in own.items():
                if name in weights:
                    player.load(weights[name])
            for game in games:
                if phase == "selfplay":
                    orders.send(self_play(config.search, players["best"], rng))
                else:
                    both = [players["candidate"], players["best"]]
                    orders.send(match(config.search, both, rng, black=game % 2))
    orders.close()


class Pool:
    """All workers, and the server if there is one."""

    def __init__(self, config: Config) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self.config = config
        self._server: Connection | None = None
        self._processes: list[Any] = []
        asking: list[Any] = [None] * config.workers
        if config.server:
            pairs = [multiprocessing.Pipe() for _ in range(config.workers + 1)]
            self._server, *asking = [mine for mine, _ in pairs]
            self._start(
                context, "inference", serve, config, [theirs for _, theirs in pairs]
            )
        self._workers: list[Connection] = []
        for number in range(config.workers):
            mine, theirs = multiprocessing.Pipe()
            self._start(
                context,
                f"selfplay-{number:02d}",
                work,
                config,
                number,
                theirs,
                asking[number],
            )
            self._workers.append(mine)
            theirs.close()

    def _start(self, context: Any, name: str, target: Any, *args: Any) -> None:
        process = context.Process(target=target, args=args, name=name, daemon=True)
        process.start()
        self._processes.append(process)

    def play(self, phase: str, games: int, weights: dict[str, Path]) -> list[Any]:
        """So many games, divided among the workers; their outcomes as they come."""
        if self._server is not None:
            self._server.send(weights)
            self._server.recv()
        busy = {}
        for number, worker in enumerate(self._workers):
            share = range(number, games, len(self._workers))
            if share:
                worker.send((phase, share, weights))
                busy[worker] = len(share)
        outcomes = []
        while busy:
            for ready in wait(list(busy)):
                assert isinstance(ready, Connection)
                outcomes.append(ready.recv())
                busy[ready] -= 1
                if not busy[ready]:
                    del busy[ready]
        return outcomes

    def close(self) -> None:
        for connection in (*self._workers, *([self._server] if self._server else [])):
            connection.send(None)
        for process in self._processes:
            process.join(10)
