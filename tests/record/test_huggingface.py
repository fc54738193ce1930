"""Hugging Face: TRL's on-policy trainers, `generate` alone and the plain Trainer, on models of a few thousand weights."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

import cutaway

MODEL = """
import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
torch.manual_seed(0)
vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {c: i + 3 for i, c in enumerate("abcdefghijklmnopqrstuvwxyz ")}
characters = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
characters.pre_tokenizer, characters.decoder = pre_tokenizers.Split("", "isolated"), decoders.Fuse()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=characters, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>", padding_side="left"
)
tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
model = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=len(vocabulary), hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, max_position_embeddings=64, pad_token_id=0, eos_token_id=1, bos_token_id=1,
))
model.save_pretrained("tiny")
tokenizer.save_pretrained("tiny")
prompts = Dataset.from_dict({"prompt": [f"the {w} is" for w in ("cat", "dog", "sky", "sea")] * 4})
def vowels(completions, **kw): return [float(sum(c in "aeiou" for c in x)) for x in completions]
common = dict(output_dir="out", max_steps=2, report_to=[], use_cpu=True, seed=0, disable_tqdm=True)
"""
ONLINE = """
from trl import {name}Config, {name}Trainer
config = {name}Config(
    **common, per_device_train_batch_size=4, gradient_accumulation_steps=2, num_generations=2,
    max_completion_length=6, beta=0.1, save_strategy="steps", save_steps=2,
)
trainer = {name}Trainer("tiny", reward_funcs=vowels, args=config, train_dataset=prompts, processing_class=tokenizer)
trainer.train()
"""
DPO = """
from trl.experimental.online_dpo import OnlineDPOConfig, OnlineDPOTrainer
config = OnlineDPOConfig(**common, per_device_train_batch_size=2, max_new_tokens=6, save_strategy="no")
reference = Qwen2ForCausalLM.from_pretrained("tiny")
trainer = OnlineDPOTrainer(model, reference, reward_funcs=vowels, args=config, train_dataset=prompts,
                           processing_class=tokenizer)
trainer.train()
"""


def tokens(folder: Path) -> int:
    """Of the whole run, start-up included."""
    return cutaway.open(folder / "run.cutaway").tokens()


@pytest.mark.parametrize("name", ["GRPO", "RLOO"])
def test_generation_reward_reference_and_update_are_told_apart(
    tmp_path: Path, name: str
) -> None:
    script(tmp_path, MODEL + ONLINE.replace("{name}", name))
    (seen,) = record(tmp_path, "train.py")
    assert (seen.role, seen.iterations) == ("learner", 2)
    for operation in ("generation", "reward"):
        # Two micro-batches share what was generated.
        assert seen.inside[operation, "backpropagation"] == 2, operation
    assert seen.inside["reference", "backpropagation"] >= 2
    assert seen.operations["inference"] == 0
    assert seen.operations["checkpoint"] == 1
    assert 2 * 8 <= tokens(tmp_path) <= 2 * 8 * 6


TOOLS = """
from trl import GRPOTrainer

class Enough(Exception): pass

class Trainer(GRPOTrainer):
    # TRL's own loop over tools, without a model: it ends where the results would be tokenized.
    def __init__(self):
        self.max_tool_calling_iterations = 4
        self.async_loop = None
    def _get_tool_suffix_ids(self, messages):
        global results
        results = messages
        raise Enough

def add(a, b): return a + b
def fails(): raise ValueError("no")
def call(name, **arguments):
    return {"type": "function", "function": {"name": name, "arguments": arguments}}

trainer = Trainer()
for batch in range(3):
    trainer._sync_tool_dicts = [{"add": add, "fails": fails}]
    trainer._async_tool_dicts = [{}]
    answer = [{"role": "assistant", "tool_calls": [call("add", a=1, b=2), call("fails"), call("unknown")]}]
    try:
        trainer._tool_call_loop([[]], [[1]], [[2]], [answer], None, None, {})
    except Enough: pass
    assert [m["content"] for m in results][0] == "3", results
"""
ASYNC_TOOLS = """
import asyncio
from cutaway.record.frameworks.cards.trl import _called
import trl

async def search(seconds): await asyncio.sleep(seconds)
async def main():
    tool = _called("tool", search)
    await asyncio.gather(tool(0.02), tool(0.03), tool(0.01))
    await tool(0.01)
asyncio.run(main())
"""


def test_each_call_of_a_tool_is_named(tmp_path: Path) -> None:
    script(tmp_path, TOOLS)
    (seen,) = record(tmp_path, "train.py")
    # Of three calls one names a tool that there is not, and one fails.
    assert seen.operations["tool"] == 3 * 2


def test_a_tool_on_an_event_loop_is_named_while_it_runs(tmp_path: Path) -> None:
    script(tmp_path, ASYNC_TOOLS)
    (seen,) = record(tmp_path, "train.py")
    # Each of the four calls runs until it sleeps, and after that.
    assert seen.operations["tool"] == 4 * 2


def test_online_dpo(tmp_path: Path) -> None:
    script(tmp_path, MODEL + DPO)
    (seen,) = record(tmp_path, "train.py")
    assert (seen.role, seen.iterations) == ("learner", 2)
    for operation in ("generation", "reward", "reference"):
        assert seen.inside[operation, "backpropagation"] == 2, operation
    assert tokens(tmp_path) > 0


def test_generate_alone_counts_the_tokens_it_made_and_not_the_padding(
    tmp_path: Path,
) -> None:
    script(
        tmp_path,
        MODEL
        + """
from transformers import LogitsProcessor
class EndAfterTwo(LogitsProcessor):
    def __call__(self, ids, scores):
        scores[:, 1] = -1e9
        if ids.shape[1] >= 6: scores[0, 1] = 1e9  # the first row says two letters and ends
        return scores
for _ in range(3):
    model.generate(torch.full((2, 4), 5), max_new_tokens=5, do_sample=False, logits_processor=[EndAfterTwo()])
""",
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations == {"generation": 3, "prefill": 3, "decode": 3}
    assert tokens(tmp_path) == 3 * (3 + 5)
    # Two rows for three tokens, the second one alone for two more.
    gauges = cutaway.open(tmp_path / "run.cutaway").gauges().where(name="sequences")
    assert gauges["value"].tolist() == [2.0, 1.0, 0.0] * 3


def test_the_plain_trainer(tmp_path: Path) -> None:
    script(
        tmp_path,
        MODEL
        + """
from transformers import Trainer, TrainingArguments
rows = [dict(input_ids=[3, 4, 5, 6], labels=[3, 4, 5, 6])] * 8
config = TrainingArguments(**common, per_device_train_batch_size=2, gradient_accumulation_steps=2, save_strategy="no")
trainer = Trainer(model, config, train_dataset=rows, eval_dataset=rows)
trainer.train()
trainer.evaluate()
""",
    )
    (seen,) = record(tmp_path, "train.py")
    assert (seen.role, seen.iterations) == ("learner", 2)
    assert seen.operations["evaluation"] == 1
    assert seen.operations["inference"] == 0
