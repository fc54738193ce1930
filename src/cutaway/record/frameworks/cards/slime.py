"""slime times its own steps (`slime.observability.timer.Timer`). Read at the head of August 2026; no training was run here."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.cards._timers import rules, table
from cutaway.record.imports import Any

TIMERS = table(
    reference="log_probs ref_log_probs teacher_log_probs",
    backpropagation="actor_train",
    sync="update_weights ref_model_update sleep wake_up",
    checkpoint="save_model",
)


def _name(timer: Any, name: str) -> str:
    return name


CARD = Card(
    "slime",
    rules=rules(("slime.observability.timer", "Timer"), "start", "end", _name, TIMERS),
)
