"""An actor process: steps its environments one after another, then asks for all their actions at once."""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass

import cutaway

from . import envs
from .transport import Client, Port


@dataclass(frozen=True)
class ActorArguments:
    """What an actor process is started with."""

    port: Port
    env: str
    envs_per_actor: int
    seed: int


def run(arguments: ActorArguments) -> None:
    """Body of the process; returns when the slots are closed or the learner is gone."""
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the learner ends the run
    _let_others_first()
    client = Client(arguments.port)
    games = [
        envs.make(arguments.env, arguments.seed + i)
        for i in range(arguments.envs_per_actor)
    ]
    returns, lengths = [0.0] * len(games), [0] * len(games)
    for game, obs in zip(games, client.obs, strict=True):
        game.reset(obs)
    client.reward[:], client.done[:], client.episode_steps[:] = 0.0, 1, 0
    rows = list(zip(range(len(games)), games, client.obs, strict=True))
    while _actions(client):
        with cutaway.operation("simulation"):
            actions = client.action.tolist()
            for i, game, obs in rows:
                reward, done = game.step(actions[i], obs)
                returns[i] += reward
                lengths[i] += 1
                client.reward[i], client.done[i], client.episode_steps[i] = (
                    reward,
                    done,
                    0,
                )
                if done:
                    client.episode_return[i], client.episode_steps[i] = (
                        returns[i],
                        lengths[i],
                    )
                    returns[i], lengths[i] = 0.0, 0
                    game.reset(obs)
        cutaway.step(len(games))


def _let_others_first() -> None:
    """All actors wait for inference and learning: these take a CPU from an actor at once, and no actor takes theirs."""
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        os.nice(5)


@cutaway.operation("inference_wait")
def _actions(client: Client) -> bool:
    client.ask()
    return client.receive()
