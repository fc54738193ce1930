"""PyTorch with torch.compile: the eager agent, whose updates and policy are compiled as wholes, optimizer included."""

from __future__ import annotations

import torch

from . import torch_eager
from .agent import Settings, Weights


class BackendAgent(torch_eager.BackendAgent):
    """The same methods, compiled when they are first called."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        super().__init__(settings, weights)
        self.update_critics = torch.compile(super().update_critics)  # type: ignore[method-assign]
        self.update_actor = torch.compile(super().update_actor)  # type: ignore[method-assign]
        self.actor = torch.compile(self.actor)  # type: ignore[assignment]
