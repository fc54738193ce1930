"""TRL's GRPO with a vLLM server, on a CPU. Writes what it and the server counted to told.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import serving
import tiny
import transfer
from trl import GRPOConfig, GRPOTrainer
from trl.generation import vllm_generation
from trl.generation.vllm_client import VLLMClient

LAST = "sampling/sampling_logp_difference/mean"
lengths: list[int] = []


class Client(VLLMClient):
    """TRL's client sends weights with NCCL, and refuses a device that is not CUDA. This one sends them as a file."""

    def init_communicator(self, device: Any = 0) -> None:
        self._post(f"{self.base_url}/init_weight_transfer_engine", json={"init_info": {}})  # fmt: skip

    def update_named_params(self, metadata: Any, named_params: Any) -> None:
        self._start_weight_update()
        new = transfer.write(named_params)
        self._post(f"{self.base_url}/update_weights", json={"update_info": new})
        self._finish_weight_update()


def vowels(completions: list[str], completion_ids: list[list[int]], **_: object) -> list[float]:  # fmt: skip
    lengths.extend(map(len, completion_ids))
    return [sum(letter in "aeiou" for letter in text) / max(1, len(text)) for text in completions]  # fmt: skip


def main() -> None:
    vllm_generation.VLLMClient = Client
    model = tiny.save()
    with serving.server(model) as address:
        config = GRPOConfig(
            output_dir="out",
            max_steps=4,
            per_device_train_batch_size=8,
            num_generations=4,
            max_completion_length=24,
            beta=0.04,
            learning_rate=0.01,
            use_vllm=True,
            vllm_mode="server",
            vllm_server_base_url=address,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            logging_steps=1,
            seed=0,
            disable_tqdm=True,
        )
        trainer = GRPOTrainer(
            model=model,
            reward_funcs=vowels,
            args=config,
            train_dataset=tiny.prompts(),
            processing_class=tiny.tokenizer(),
        )
        trainer.train()
        told = {
            "completion tokens": sum(lengths),
            "server tokens": serving.generated(address),
            "steps": trainer.state.global_step,
            "difference": max(
                row[LAST] for row in trainer.state.log_history if LAST in row
            ),
        }
    Path("told.json").write_text(json.dumps(told, default=float))


if __name__ == "__main__":
    main()
