"""PyTorch: `frameworks/torch.py` says what is found in its loops."""

from __future__ import annotations

from cutaway.record.frameworks import torch
from cutaway.record.frameworks.card import Card

CARD = Card("PyTorch", rules=torch.RULES, modules=torch.MODULES, headline=1)
