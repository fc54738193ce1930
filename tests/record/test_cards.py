"""Cards of frameworks: complete, loaded on demand, wrong ones refused where they are written, settings by version."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
import sys
from operator import attrgetter
from typing import Any

import pytest

from cutaway.record.frameworks import cards
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule
from cutaway.vocabulary import OPERATIONS

pytestmark = pytest.mark.core

FUNCTIONS = {"make_vec_env"}
ALGORITHMS = "ray.rllib.algorithms.algorithm_config"
ENV_RUNNERS = "num_env_runners num_envs_per_env_runner"
VEC_ENV = "stable_baselines3.common.env_util:make_vec_env"
REPLAY = "gradient_steps train_freq"
GRPO = (
    "per_device_train_batch_size gradient_accumulation_steps num_iterations "
    "max_completion_length vllm_mode steps_per_generation"
)
ASYNC = "trl.experimental.async_grpo"
VLLM_SERVE = "trl.scripts.vllm_serve:ScriptArguments"


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


# Who takes the settings that the advice names: loop, class or function, its arguments.
TAKEN = [
    ("ray", f"{ALGORITHMS}:AlgorithmConfig.env_runners", ENV_RUNNERS),
    ("ray", f"{ALGORITHMS}:AlgorithmConfig.training", "minibatch_size num_epochs"),
    ("ray", "ray.rllib.algorithms.dqn:DQNConfig.training", "training_intensity"),
    ("ray", "ray.rllib.algorithms.sac:SACConfig.training", "training_intensity"),
    ("stable_baselines3", "stable_baselines3:PPO", "batch_size n_epochs"),
    ("stable_baselines3", "stable_baselines3:DQN", REPLAY),
    ("stable_baselines3", "stable_baselines3:SAC", REPLAY),
    ("stable_baselines3", "stable_baselines3:TD3", REPLAY),
    ("stable_baselines3", VEC_ENV, "n_envs vec_env_cls"),
    ("stable_baselines3", "sb3_contrib:RecurrentPPO", "batch_size n_epochs"),
    ("stable_baselines3", "sb3_contrib:MaskablePPO", "batch_size n_epochs"),
    ("stable_baselines3", "sb3_contrib:TQC", REPLAY),
    ("stable_baselines3", "sb3_contrib:QRDQN", REPLAY),
    ("stable_baselines3", "sbx:PPO", "batch_size n_epochs"),
    ("stable_baselines3", "sbx:SAC", REPLAY),
    ("stable_baselines3", "sbx:DQN", REPLAY),
    ("trl", "trl:GRPOConfig", GRPO),
    ("trl", f"{ASYNC}:AsyncGRPOConfig", "max_staleness max_inflight_tasks"),
    ("trl", f"{ASYNC}:AsyncGRPOConfig", "weight_sync_steps"),
    ("trl", VLLM_SERVE, "tensor_parallel_size data_parallel_size"),
]


@pytest.mark.parametrize(("card", "taker", "names"), TAKEN)
def test_settings_that_the_advice_names_exist_in_the_installed_version(
    card: str, taker: str, names: str
) -> None:
    module, _, path = taker.partition(":")
    pytest.importorskip(module.partition(".")[0])
    named = named_by(card)
    takes = inspect.signature(attrgetter(path)(importlib.import_module(module)))
    for name in names.split():
        assert name in takes.parameters, f"{taker} has no argument {name}"
        assert name in named, f"the card of {card} does not name {name}"


@pytest.mark.parametrize("card", sorted({card for card, _, _ in TAKEN}))
def test_every_setting_that_the_advice_names_is_looked_for(card: str) -> None:
    looked_for = {
        name for owner, _, names in TAKEN if owner == card for name in names.split()
    }
    assert named_by(card) == looked_for


def named_by(card: str) -> set[str]:
    """The arguments that the newest settings of a card name (the one of sb3-contrib and SBX is that of Stable-Baselines3)."""
    newest = [one for one in cards.load(card).settings if not one.until]
    texts = " ".join(text for one in newest for text in one.texts.values())
    words = re.findall(r"[a-z]+(?:_[a-z]+)+", texts.replace("torch.compile", ""))
    return {word for word in words if word not in FUNCTIONS}


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
