"""Hugging Face transformers and TRL: the Trainer's loop, `generate`, and what GRPO, RLOO and online DPO do inside a step.

An iteration is an optimizer step. TRL generates, scores and updates within one `training_step`: the parts have names of
their own, what is left of it is the update. Log-probabilities without gradients are `reference`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from cutaway import _recorder
from cutaway.record.frameworks.cover import Rule, cover_family
from cutaway.record.frameworks.tokens import count_tokens
from cutaway.record.imports import Any


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


def _logprobs(trainer: str, module: Any) -> None:
    import torch

    names = ("_get_per_token_logps_and_entropies", "_forward")
    cover_family(getattr(module, trainer), names, "reference", unless=torch._C.is_grad_enabled)


TRAINER = ("transformers.trainer", "Trainer+")
ON_POLICY = {
    "trl.trainer.grpo_trainer": "GRPOTrainer",
    "trl.trainer.rloo_trainer": "RLOOTrainer",
    "trl.experimental.online_dpo.online_dpo_trainer": "OnlineDPOTrainer",
}
PARTS = (
    ("_generate _generate_vllm", "generation"),
    ("_calculate_rewards _calculate_rewards_from_functions", "reward"),
    ("_move_model_to_vllm", "sync"),
)
VLLM = ("trl.generation.vllm_generation", "VLLMGeneration")
RULES = (
    # One call draws the batches of one optimizer step.
    Rule(*TRAINER, "get_batch_samples", "backpropagation", iteration=True),
    Rule(*TRAINER, "training_step _clip_grad_norm _get_grad_norm", "backpropagation"),
    Rule(*TRAINER, "evaluate predict", "evaluation"),
    Rule(*TRAINER, "_save_checkpoint save_model", "checkpoint"),
    Rule("transformers.generation.utils", "GenerationMixin", "generate", "generation", around=_counting),
    *(Rule(module, f"{cls}+", *part) for module, cls in ON_POLICY.items() for part in PARTS),
    Rule("trl.trainer.callbacks", "SyncRefModelCallback", "on_step_end", "sync"),
    Rule(*VLLM, "sync_weights", "sync"),
    Rule(*VLLM, "generate", "generation"),
)
MODULES = {module: functools.partial(_logprobs, trainer) for module, trainer in ON_POLICY.items()}
