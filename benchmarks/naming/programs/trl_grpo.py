"""GRPO with TRL on a tiny Qwen2 made here, a reward function and a reference model."""

from contextlib import nullcontext

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from benchmarks.naming.truth import annotate, iterations, operation
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
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


torch.manual_seed(1)
vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {
    c: i + 3 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ")
}
characters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
characters.pre_tokenizer, characters.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
)
config = Qwen2Config(
    vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=1,
)  # fmt: skip
Qwen2ForCausalLM(config).save_pretrained("tiny")
tokenizer.save_pretrained("tiny")


def vowels(completions, **_):
    return [sum(c in "aeiou" for c in text) / max(1, len(text)) for text in completions]


trainer = Trainer(
    "tiny",
    reward_funcs=vowels,
    args=GRPOConfig(
        output_dir="out", per_device_train_batch_size=8, num_generations=4, max_completion_length=24, max_steps=25,
        report_to=[], use_cpu=True, beta=0.04, save_strategy="no", seed=1, disable_tqdm=True,
    ),
    train_dataset=Dataset.from_dict({"prompt": [f"the {w} is" for w in ("cat", "dog", "sky", "sea")] * 50}),
    processing_class=tokenizer,
)  # fmt: skip
trainer.train()
