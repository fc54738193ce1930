"""Checkpoints: weights, optimiser and counters in one file, replaced atomically. Replay only when asked for (`--checkpoint-replay`)."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from cutaway import CutawayError

from .config import Config

NAME = "checkpoint.pt"


def save(directory: Path, config: Config, learner: dict[str, Any], steps: int) -> Path:
    """Writes the checkpoint beside the old one and moves it into place: a kill leaves one of the two."""
    directory.mkdir(parents=True, exist_ok=True)
    path, fresh = directory / NAME, directory / (NAME + ".new")
    shape = {
        "env": config.env,
        "algorithm": config.algorithm,
        "network": dataclasses.asdict(config.network),
    }
    torch.save({"shape": shape, "learner": learner, "steps": steps}, fresh)
    fresh.replace(path)
    return path


def load(directory: Path, config: Config) -> tuple[dict[str, Any], int]:
    """The learner's state and the steps already made; refuses a checkpoint of another network."""
    path = directory / NAME
    if not path.exists():
        raise CutawayError(
            f"There is no checkpoint in {directory}: start without --resume or --evaluate first."
        )
    content = torch.load(path, map_location=config.device, weights_only=True)
    shape = content["shape"]
    mine = {
        "env": config.env,
        "algorithm": config.algorithm,
        "network": dataclasses.asdict(config.network),
    }
    different = [name for name in mine if mine[name] != shape[name]]
    if different:
        raise CutawayError(
            f"The checkpoint in {directory} has another {different[0]} ({shape[different[0]]}): ask for that."
        )
    return content["learner"], int(content["steps"])
