"""JAX: `frameworks/jax.py` says what is found in its loops."""

from __future__ import annotations

from cutaway.record.frameworks import jax
from cutaway.record.frameworks.card import Card

CARD = Card("JAX", rules=jax.RULES, modules=jax.MODULES, headline=2)
