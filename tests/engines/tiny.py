"""A language model of a few thousand weights, its tokenizer and a few prompts, made on the spot and saved in the folder `tiny`."""

from __future__ import annotations

import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

LETTERS = "abcdefghijklmnopqrstuvwxyz .,!?"
WORDS = ("cat", "dog", "sky", "sea")


def tokenizer() -> PreTrainedTokenizerFast:
    """A letter is a token."""
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2}
    for letter in LETTERS:
        vocabulary[letter] = len(vocabulary)
    letters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    letters.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    letters.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=letters,
        pad_token="<pad>",
        eos_token="<eos>",
        unk_token="<unk>",
        padding_side="left",
    )
    made.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    return made


def save(folder: str = "tiny") -> str:
    torch.manual_seed(0)
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=len(LETTERS) + 3,
            hidden_size=64,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=2,
            max_position_embeddings=128,
            pad_token_id=0,
            eos_token_id=1,
            bos_token_id=1,
        )
    )
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return folder


def prompts(chat: bool = False) -> Dataset:
    rows = [f"the {word} is" for word in WORDS] * 50
    if not chat:
        return Dataset.from_dict({"prompt": rows})
    return Dataset.from_dict(
        {"prompt": [[{"role": "user", "content": row}] for row in rows]}
    )
