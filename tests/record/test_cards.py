"""Cards of frameworks: complete, loaded on demand, wrong ones refused where they are written, settings by version."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from cutaway.record.frameworks import cards
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule
from cutaway.vocabulary import OPERATIONS

pytestmark = pytest.mark.core


def test_every_file_in_the_folder_is_a_card() -> None:
    known = cards.every()
    assert {"torch", "gymnasium", "stable_baselines3", "ray"} <= known.keys()
    assert all(isinstance(card, Card) and card.title for card in known.values())


def test_a_typing_error_in_a_rule_or_card_is_an_error_where_it_is_written() -> None:
    wrong: Any = Rule
    with pytest.raises(TypeError, match="inferense"):
        wrong("mylib", "Agent", inferense="act")
    with pytest.raises(TypeError, match="setings"):
        wrong_card: Any = Card
        wrong_card("mylib", setings=[])


def test_a_rule_takes_every_built_in_operation() -> None:
    for operation in OPERATIONS:
        given: dict[str, Any] = {operation: "act"}
        assert Rule("mylib", "Agent", **given).methods == {operation: ["act"]}


def test_a_setting_is_the_one_of_the_version_in_use() -> None:
    old, new = (
        Settings(until="2.38", update="lower num_sgd_iter"),
        Settings(update="lower num_epochs"),
    )
    card = Card("mylib", settings=[old, new])
    assert card.setting("update", "2.9.3") == "lower num_sgd_iter"
    assert card.setting("update", "2.38.0") == "lower num_epochs"
    assert card.setting("update") == "lower num_epochs"
    assert card.setting("rarer", "2.60") == ""


def test_settings_of_rllib_are_called_as_each_release_calls_them() -> None:
    """Compared with `algorithm_config.py` of the releases 2.9.3 to 2.12, 2.20, 2.37, 2.38 and 2.60."""
    card = cards.load("ray")
    assert card.setting("workers", "2.12.0") == "set num_rollout_workers={n}"
    assert card.setting("workers", "2.20.0") == "set num_env_runners={n}"
    assert card.setting("passes", "2.37.0") == "lower num_sgd_iter"
    assert card.setting("passes", "2.38.0") == "lower num_epochs"


def test_no_card_is_loaded_before_its_package_is_wanted() -> None:
    code = """
import sys
from cutaway.record import frameworks
from cutaway.record.options import Options
frameworks.install(Options("nowhere"))
found = [name for name in sys.modules if name.startswith("cutaway.record.frameworks.cards.")]
assert not found, found
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
