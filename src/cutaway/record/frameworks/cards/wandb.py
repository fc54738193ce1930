"""Weights & Biases: what it logs is no operation of the training, and has no name."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import Rule

CARD = Card(
    "Weights & Biases",
    version="0.31",
    rules=[Rule("wandb.sdk.wandb_run", "Run", "log", mark="log")],
)
