"""gymnasium, and gym before it."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.environments import RULES

CARD = Card("gymnasium, gym", version="1.x, 0.26", rules=RULES, headline=5)
