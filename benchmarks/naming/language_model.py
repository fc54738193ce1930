"""A tiny Qwen2, its tokenizer, prompts and a reward, for the programs that train language models."""

from __future__ import annotations

from typing import Any

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

COMMON: dict[str, Any] = {
    "output_dir": "out", "max_steps": 25, "report_to": [], "use_cpu": True, "save_strategy": "no", "seed": 1,
    "disable_tqdm": True,
}  # fmt: skip


def save(folder: str) -> PreTrainedTokenizerFast:
    """Writes the model and its tokenizer, and gives the tokenizer."""
    torch.manual_seed(1)
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2}
    vocabulary |= {c: i + 3 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ")}
    characters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    characters.pre_tokenizer, characters.decoder = (
        pre_tokenizers.Split("", "isolated"),
        decoders.Fuse(),
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=characters,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )
    config = Qwen2Config(
        vocab_size=len(vocabulary), hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=0, eos_token_id=1, bos_token_id=1,
    )  # fmt: skip
    Qwen2ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return tokenizer


def prompts() -> Dataset:
    return Dataset.from_dict(
        {"prompt": [f"the {w} is" for w in ("cat", "dog", "sky", "sea")] * 50}
    )


def vowels(completions: list[str], **_: Any) -> list[float]:
    return [sum(c in "aeiou" for c in text) / max(1, len(text)) for text in completions]
