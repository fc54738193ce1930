"""Hugging Face transformers and TRL: the Trainer's loop, `generate`, and what GRPO, RLOO and online DPO do inside a step.

An iteration is an optimizer step. TRL generates, scores and updates within one `training_step`: the parts have names of
their own, what is left of it is the update. Log-probabilities without gradients are `reference`.
"""

from __future__ import annotations

import functools

from cutaway import _recorder
from cutaway.record.frameworks.cover import cover, cover_family
from cutaway.record.frameworks.tokens import count_tokens
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

UPDATES = ("training_step", "_clip_grad_norm", "_get_grad_norm")
GENERATES = ("_generate", "_generate_vllm")
REWARDS = ("_calculate_rewards", "_calculate_rewards_from_functions")
LOGPROBS = ("_get_per_token_logps_and_entropies", "_forward")
ON_POLICY = {
    "trl.trainer.grpo_trainer": "GRPOTrainer",
    "trl.trainer.rloo_trainer": "RLOOTrainer",
    "trl.experimental.online_dpo.online_dpo_trainer": "OnlineDPOTrainer",
}


def install() -> None:
    when_imported("transformers.trainer", _trainers)
    when_imported("transformers.generation.utils", _generation)
    for name, trainer in ON_POLICY.items():
        when_imported(name, functools.partial(_on_policy, trainer))
    when_imported("trl.trainer.callbacks", _callbacks)
    when_imported("trl.generation.vllm_generation", _vllm)


def _trainers(module: Any) -> None:
    base = module.Trainer
    # One call draws the batches of one optimizer step.
    cover_family(base, ("get_batch_samples",), "backpropagation", iteration=True)
    cover_family(base, UPDATES, "backpropagation")
    cover_family(base, ("evaluate", "predict"), "evaluation")
    cover_family(base, ("_save_checkpoint", "save_model"), "checkpoint")


def _generation(module: Any) -> None:
    mixin = module.GenerationMixin
    cover(mixin, "generate", "generation", around=_counting)


def _counting(generate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(generate)
    def counted(model: Any, *args: Any, **kwargs: Any) -> Any:
        made = generate(model, *args, **kwargs)
        try:
            count_tokens(_new_tokens(model, args, kwargs, made))
        except Exception as error:  # a model of another kind: its tokens are not counted
            _recorder.note(f"tokens of {type(model).__name__} are not counted: {error}")
        return made

    return counted


def _new_tokens(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any) -> int:
    """Tokens after the prompt; rows that ended early are padded, and padding is no token."""
    prompt = args[0] if args else kwargs.get("inputs", kwargs.get("input_ids"))
    sequences = getattr(made, "sequences", made)
    skipped = 0 if model.config.is_encoder_decoder or prompt is None else prompt.shape[1]
    new = sequences[:, skipped:]
    config = kwargs.get("generation_config") or model.generation_config
    pad, end = config.pad_token_id, config.eos_token_id
    if pad is None:
        return int(new.numel())
    padded = new == pad
    ends = end if isinstance(end, list) else [end]
    # Where the end is also the padding, the first one of a row was generated.
    generated_ends = int(padded.any(1).sum()) if pad in ends else 0
    return int(new.numel()) - int(padded.sum()) + generated_ends


def _on_policy(trainer: str, module: Any) -> None:
    import torch

    base = getattr(module, trainer)
    for names, operation in ((GENERATES, "generation"), (REWARDS, "reward")):
        cover_family(base, names, operation)
    cover_family(base, LOGPROBS, "reference", unless=torch._C.is_grad_enabled)
    cover_family(base, ("_move_model_to_vllm",), "sync")


def _callbacks(module: Any) -> None:
    cover(module.SyncRefModelCallback, "on_step_end", "sync")


def _vllm(module: Any) -> None:
    cover(module.VLLMGeneration, "sync_weights", "sync")
    cover(module.VLLMGeneration, "generate", "generation")
