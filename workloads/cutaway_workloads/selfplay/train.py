"""The run: generations of self-play, training and evaluation, until enough were made or time is up."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import torch

import cutaway

from .network import Examples, train
from .workers import Config, Pool

GATE = 0.55
"""A candidate becomes the best if it wins this share of its games against it."""


def run(
    config: Config, versus_first: int = 0, say: Callable[[str], None] = print
) -> float | None:
    """Trains; the share of games that the best network then wins against the first, if such games were asked for."""
    cutaway.describe(**asdict(config))
    torch.manual_seed(config.seed)
    candidate = config.network().to(
        "cpu" if config.device == "opencl" else config.device
    )
    examples = Examples(config.board, config.capacity, config.seed)
    pool, began = Pool(config), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="selfplay-") as top:
        folder = Path(top)
        best = _save(candidate, folder / "0.pt")
        try:
            for generation in range(1, config.generations + 1):
                cutaway.iteration()
                with cutaway.phase("selfplay"):
                    for game in pool.play("selfplay", config.games, {"best": best}):
                        examples.add(*game)
                with cutaway.phase("train"):
                    losses = train(candidate, examples, config.steps, config.batch)
                path = _save(candidate, folder / f"{generation}.pt")
                with cutaway.phase("evaluate"):
                    won = pool.play(
                        "evaluate", config.matches, {"best": best, "candidate": path}
                    )
                share = sum(won) / len(won) if won else 1.0
                best = path if share >= GATE else best
                say(
                    f"generation {generation}: {len(examples)} positions, losses {losses[0]:.2f} and {losses[1]:.2f}, "
                    f"won {share:.0%}{', new best' if best == path else ''}, {time.monotonic() - began:.0f} s"
                )
                if config.seconds and time.monotonic() - began > config.seconds:
                    break
            if not versus_first:
                return None
            with cutaway.phase("evaluate"):
                won = pool.play(
                    "evaluate",
                    versus_first,
                    {"best": folder / "0.pt", "candidate": best},
                )
            say(f"won {sum(won)} of {len(won)} games against the first network")
            return float(sum(won) / len(won))
        finally:
            pool.close()


def _save(network: torch.nn.Module, path: Path) -> Path:
    torch.save(network.state_dict(), path)
    return path
