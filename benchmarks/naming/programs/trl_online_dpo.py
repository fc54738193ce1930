"""Online DPO with TRL on a tiny Qwen2 made here, a reward function and a reference model."""

from contextlib import nullcontext

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from benchmarks.naming.language_model import COMMON, prompts, save, vowels
from benchmarks.naming.truth import annotate, iterations, operation
from transformers import Qwen2ForCausalLM
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer

FRAMEWORK = "TRL"

annotate(OnlineDPOTrainer, "training_step", "backpropagation")
annotate(Accelerator, "clip_grad_norm_", "backpropagation")
annotate(AcceleratedOptimizer, "step", "backpropagation")
annotate(OnlineDPOTrainer, "_generate", "generation")
annotate(OnlineDPOTrainer, "_calculate_rewards_from_functions", "reward")
iterations(OnlineDPOTrainer, "get_batch_samples")


class Trainer(OnlineDPOTrainer):
    def _forward(self, *args, **kwargs):
        with nullcontext() if torch.is_grad_enabled() else operation("reference"):
            return super()._forward(*args, **kwargs)


tokenizer = save("tiny")
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
trainer = Trainer(
    Qwen2ForCausalLM.from_pretrained("tiny"),
    Qwen2ForCausalLM.from_pretrained("tiny"),
    reward_funcs=vowels,
    args=OnlineDPOConfig(**COMMON, per_device_train_batch_size=8, max_new_tokens=24),
    train_dataset=prompts(),
    processing_class=tokenizer,
)
trainer.train()
