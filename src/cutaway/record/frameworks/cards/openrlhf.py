"""OpenRLHF: methods of the driver and of its Ray actors. Read at the head of August 2026; no training was run here."""

from __future__ import annotations

from collections.abc import Callable

from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import Rule

DRIVER = ("openrlhf.trainer.ppo_trainer", "BasePPOTrainer+")
MAKER = ("openrlhf.trainer.ppo_utils.experience_maker", "RemoteExperienceMaker")
SAMPLER = ("openrlhf.trainer.ppo_utils.samples_generator", "SamplesGenerator")
ACTOR = ("openrlhf.trainer.ray.ppo_actor", "ActorPPOTrainer+")
CRITIC = ("openrlhf.trainer.ray.ppo_critic", "CriticPPOTrainer+")
MODEL = ("openrlhf.trainer.ray.launcher", "BaseModelActor+")


def _others(*words: str) -> Callable[[type], bool]:
    """Which actors hold another model than those with one of the words in their name."""
    return lambda actor: not any(word in actor.__name__ for word in words)


CARD = Card(
    "OpenRLHF",
    version="0.11",
    rules=[
        Rule(*DRIVER, "train_step", iteration=True),
        Rule(
            *DRIVER,
            backpropagation="ppo_train",
            sync="broadcast_to_vllm",
            checkpoint="save_logs_and_checkpoints",
        ),
        Rule(
            *SAMPLER, generation="generate_samples", evaluation="generate_eval_samples"
        ),
        Rule(*MAKER, reference="make_experience"),
        Rule(*MAKER, backpropagation="compute_advantages_and_returns"),
        Rule(*ACTOR, backpropagation="ppo_train", sync="broadcast_to_vllm"),
        Rule(*CRITIC, backpropagation="ppo_train"),
        Rule(*MODEL, reference="forward", leave=_others("Reference", "Policy")),
        Rule(*MODEL, inference="forward", leave=_others("Critic")),
        Rule(*MODEL, reward="forward", leave=_others("Reward")),
    ],
)
