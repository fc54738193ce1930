"""GRPO with TRL on a tiny Qwen2 made here, a reward function and a reference model."""

from contextlib import nullcontext

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from benchmarks.naming.language_model import COMMON, prompts, save, vowels
from benchmarks.naming.truth import annotate, iterations, operation
from trl import GRPOConfig, GRPOTrainer

FRAMEWORK = "TRL"

annotate(GRPOTrainer, "training_step", "backpropagation")
annotate(Accelerator, "clip_grad_norm_", "backpropagation")
annotate(AcceleratedOptimizer, "step", "backpropagation")
annotate(GRPOTrainer, "_generate", "generation")
annotate(GRPOTrainer, "_calculate_rewards", "reward")
iterations(GRPOTrainer, "get_batch_samples")


class Trainer(GRPOTrainer):
    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        with nullcontext() if torch.is_grad_enabled() else operation("reference"):
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)


tokenizer = save("tiny")
trainer = Trainer(
    "tiny",
    reward_funcs=vowels,
    args=GRPOConfig(
        **COMMON,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=24,
        beta=0.04,
    ),
    train_dataset=prompts(),
    processing_class=tokenizer,
)
trainer.train()
