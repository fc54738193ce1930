"""Self-play: the search finds what wins, a network learns from its games, and all processes work together under the recorder."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import cutaway
from cutaway_workloads.selfplay.game import Board
from cutaway_workloads.selfplay.network import Evaluator, Examples, evaluator, train
from cutaway_workloads.selfplay.play import self_play
from cutaway_workloads.selfplay.search import Search
from cutaway_workloads.selfplay.workers import Config


def evenly(planes):
    """A network that knows nothing."""
    moves = planes.shape[-1] ** 2 + 1
    return np.full((len(planes), moves), 1 / moves, np.float32), np.zeros(
        len(planes), np.float32
    )


def position(board: Board, *moves: int):
    state = board.start()
    for move in moves:
        state.apply_action(move)
    return state


@pytest.mark.parametrize("leaves", [1, 8])
def test_the_search_passes_when_that_wins_and_does_not_when_that_loses(
    leaves: int,
) -> None:
    board = Board(3, komi=0.5)
    passed = 9
    search = Search(board, simulations=200, leaves=leaves)
    # Black has the centre and White passed: another pass ends the game, and Black has won it.
    assert np.argmax(search.run(position(board, 4, passed), evenly)) == passed
    # White has the only stone and Black passed: the same for White.
    assert np.argmax(search.run(position(board, passed, 4, passed), evenly)) == passed
    # Black has two stones to one and passed: a pass of White would end the game, lost.
    assert (
        np.argmax(search.run(position(board, 4, passed, 1, 8, passed), evenly))
        != passed
    )


def test_every_descent_is_counted_once_and_only_legal_moves_are_visited() -> None:
    board = Board(3, komi=0.5)
    state = position(board, 0, 1)
    asked = []

    def evaluate(planes):
        asked.append(len(planes))
        return evenly(planes)

    policy = Search(board, simulations=50, leaves=8).run(state, evaluate)
    assert policy.sum() == pytest.approx(1)
    assert (policy * 50 == np.round(policy * 50)).all()
    assert set(np.flatnonzero(policy)) <= set(state.legal_actions())
    assert (
        max(asked) > 2 and sum(asked) <= 51
    )  # batches of different leaves; one more for the root


def test_planes_and_symmetries_keep_stones_and_policy_together() -> None:
    board = Board(3, komi=0.5)
    state = position(board, 0)
    planes = board.planes(state)  # White to move: the black stone is the other's
    assert planes[1, 0, 0] == 1 and planes[0].sum() == 0 and planes[3].all()
    policy = np.zeros((1, 10), np.float32)
    policy[0, 0] = 1
    for way in range(8):
        turned, moved = board.turned(planes[None], policy, way)
        assert turned[0, 1].reshape(-1).argmax() == moved[0].argmax()


def test_a_network_learns_from_self_play_what_holds_in_games_it_has_not_seen() -> None:
    torch.manual_seed(0)
    config = Config(size=4, komi=0.5, simulations=16, channels=16, blocks=1)
    rng = np.random.default_rng(0)
    network = config.network()
    games = [self_play(config.search, Evaluator(network), rng) for _ in range(24)]
    seen, unseen = Examples(config.board, 10_000, 0), games[16:]
    for game in games[:16]:
        seen.add(*game)

    def loss() -> float:
        planes, policy, _ = (
            np.concatenate(column) for column in zip(*unseen, strict=True)
        )
        probabilities, _ = Evaluator(network)(planes)
        return float(-(policy * np.log(probabilities)).sum(1).mean())

    before = loss()
    first, _ = train(network, seen, steps=10, batch=64)
    last, _ = train(network, seen, steps=80, batch=64)
    assert last < first
    assert loss() < before - 0.1


def test_opencl_gives_the_same_answers_as_pytorch() -> None:
    config = Config(size=5, channels=8, blocks=1)
    network = config.network()
    rng = np.random.default_rng(0)
    planes = rng.normal(size=(7, 4, 5, 5)).astype(np.float32)
    for one, other in zip(
        evaluator(network, "cpu")(planes),
        evaluator(network, "opencl")(planes),
        strict=True,
    ):
        assert np.abs(one - other).max() < 1e-5


def test_sparse_kernels_of_several_workers_look_like_more_to_nvidia_smi(
    tmp_path: Path,
) -> None:
    run = tmp_path / "run.cutaway"
    small = "--size 3 --workers 2 --generations 2 --games 4 --matches 2 --simulations 8 --channels 8 --blocks 1 --steps 2"
    program = ["-m", "cutaway_workloads.selfplay", "--device", "opencl", *small.split()]
    record = [
        sys.executable,
        "-m",
        "cutaway",
        "run",
        "-q",
        "--device",
        "opencl",
        "-o",
        str(run),
    ]
    done = subprocess.run(
        [*record, *program], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    opened = cutaway.open(run)
    (device,) = opened.utilisation()["devices"].values()
    assert 0 < device["busy"] < device["nvidia_smi"]["1/6 s"] <= 1
    work = opened.device_time().where(layer="kernel")
    assert len(set(work["process"].tolist())) == 2 and set(
        work["operation"].tolist()
    ) == {"inference"}


@pytest.mark.parametrize("server", [(), ("--server",)])
def test_a_recording_shows_phases_operations_and_every_worker(
    server: tuple[str, ...], tmp_path: Path
) -> None:
    run = tmp_path / "run.cutaway"
    small = "--size 3 --workers 3 --generations 2 --games 6 --matches 6 --simulations 8 --channels 8 --blocks 1 --steps 5"
    program = ["-m", "cutaway_workloads.selfplay", *small.split(), *server]
    record = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(run)]
    done = subprocess.run(
        [*record, *program], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert "generation 2: " in done.stdout
    opened = cutaway.open(run)
    names = opened.processes()["name"].tolist()
    assert {"selfplay-00", "selfplay-01", "selfplay-02"} <= set(names)
    assert ("inference" in names) == bool(server)
    seen: dict[str, set[tuple[str, str]]] = {}
    for row in opened.breakdown(by=("process", "phase", "operation")):
        seen.setdefault(names[row["process"]], set()).add(
            (row["phase"], row["operation"])
        )
    for worker in ("selfplay-00", "selfplay-01", "selfplay-02"):
        for phase in ("selfplay", "evaluate"):
            assert {
                (phase, "search"),
                (phase, "simulation"),
                (phase, "inference"),
            } <= seen[worker]
    main = next(
        seen[name] for name in names if ("train", "backpropagation") in seen[name]
    )
    assert ("train", "replay") in main
    assert opened.summary()["facts"]["workers"] == 3
