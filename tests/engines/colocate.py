"""TRL's GRPO with vLLM in its own process, on a CPU. Writes what it counted itself to told.json."""

from __future__ import annotations

import json
from pathlib import Path

import tiny
from trl import GRPOConfig, GRPOTrainer
from trl.generation.vllm_generation import VLLMGeneration
from trl.trainer import grpo_trainer

LAST = "sampling/sampling_logp_difference/mean"
lengths: list[int] = []


class Generation(VLLMGeneration):
    """vLLM's CPU build packs weights as it loads them. TRL would write to the originals, which are gone; vLLM's own reload packs again."""

    def sync_weights(self) -> None:
        new = {"weights_iterator": self._iter_named_params()}
        self.llm.collective_rpc("reload_weights", kwargs=new)
        self.llm.reset_prefix_cache()


def vowels(
    completions: list[str], completion_ids: list[list[int]], **_: object
) -> list[float]:
    lengths.extend(map(len, completion_ids))
    return [sum(letter in "aeiou" for letter in text) / max(1, len(text)) for text in completions]  # fmt: skip


def main() -> None:
    grpo_trainer.VLLMGeneration = Generation
    config = GRPOConfig(
        output_dir="out",
        max_steps=4,
        per_device_train_batch_size=8,
        num_generations=4,
        max_completion_length=24,
        beta=0.04,
        learning_rate=0.01,
        use_vllm=True,
        vllm_mode="colocate",
        vllm_max_model_length=64,
        vllm_gpu_memory_utilization=0.05,
        use_cpu=True,
        report_to=[],
        save_strategy="no",
        logging_steps=1,
        seed=0,
        disable_tqdm=True,
    )
    trainer = GRPOTrainer(
        model=tiny.save(),
        reward_funcs=vowels,
        args=config,
        train_dataset=tiny.prompts(),
        processing_class=tiny.tokenizer(),
    )
    trainer.train()
    said = [row for row in trainer.state.log_history if LAST in row]
    told = {
        "completion tokens": sum(lengths),
        "steps": trainer.state.global_step,
        # Small only if the engine has the weights that were just trained.
        "difference": max(float(row[LAST]) for row in said),
    }
    Path("told.json").write_text(json.dumps(told))


if __name__ == "__main__":
    main()
