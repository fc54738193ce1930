"""CleanRL: its programs are plain loops; its buffers are those of Stable-Baselines3."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.cards.stable_baselines3 import buffers

CARD = Card("CleanRL", rules=buffers("cleanrl_utils.buffers"))
