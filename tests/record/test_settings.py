"""Settings that the advice names exist in the installed frameworks. The core tests do without those."""

from __future__ import annotations

import importlib
import inspect
import re
from operator import attrgetter

import pytest

from cutaway.record.frameworks import cards

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
