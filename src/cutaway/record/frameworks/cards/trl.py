"""Language models: Hugging Face transformers, TRL and verl.

An iteration of transformers and TRL is an optimizer step. TRL generates, scores and updates within one `training_step`: the parts
have names of their own, what is left of it is the update. Log-probabilities without gradients are `reference`. verl's own timers
say what each part of a step is; all of them go through one function.
"""

from __future__ import annotations

import atexit
import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from cutaway import _recorder
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, begin_iteration
from cutaway.record.imports import Any

PAUSE_NS = 100_000_000  # between two lines in the log about generated tokens

_waiting = 0
_written_ns = 0


def _counting(
    generate: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> Any:
    global _waiting
    made = generate(model, *args, **kwargs)
    try:
        _waiting += _new_tokens(model, args, kwargs, made)
    except Exception as error:  # a model of another kind: its tokens are not counted
        _recorder.note(f"tokens of {type(model).__name__} are not counted: {error}")
    if not _written_ns:
        atexit.register(_write_tokens)
    if time.monotonic_ns() - _written_ns >= PAUSE_NS:
        _write_tokens()
    return made


def _new_tokens(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any
) -> int:
    """Tokens after the prompt; rows that ended early are padded, and padding is no token."""
    prompt = args[0] if args else kwargs.get("inputs", kwargs.get("input_ids"))
    sequences = getattr(made, "sequences", made)
    skipped = (
        0 if model.config.is_encoder_decoder or prompt is None else prompt.shape[1]
    )
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


def _write_tokens() -> None:
    global _waiting, _written_ns
    _written_ns = time.monotonic_ns()
    if _waiting:
        _recorder.log("tokens", f'{{"n":{_waiting},"t":{_written_ns}}}')
    _waiting = 0


def _with_gradients() -> bool:
    return bool(sys.modules["torch"].is_grad_enabled())


def _timed(
    timer: Callable[..., Iterator[None]], name: str, *args: Any, **kwargs: Any
) -> Iterator[None]:
    if name == "step":
        begin_iteration()
    operation = VERL_TIMERS.get(name)
    with _recorder.operation(operation) if operation else contextlib.nullcontext():
        yield from timer(name, *args, **kwargs)


_TIMERS = {
    "generation": "gen generate_sequences",
    "reward": "reward compute_score",
    "reference": "old_log_prob ref",
    "inference": "values",
    "backpropagation": "adv update_critic update_actor",
    "sync": "update_weights sync_rollout_weights param_sync",
    "evaluation": "testing",
    "checkpoint": "save_checkpoint",
}
VERL_TIMERS: dict[str, str] = {}
for _operation, _timers in _TIMERS.items():
    VERL_TIMERS.update(dict.fromkeys(_timers.split(), _operation))
TRAINER = ("transformers.trainer", "Trainer+")
LOGPROBS = "_get_per_token_logps_and_entropies _forward"
VLLM = ("trl.generation.vllm_generation", "VLLMGeneration")
RULES = [
    # One call draws the batches of one optimizer step.
    Rule(*TRAINER, backpropagation="get_batch_samples", iteration=True),
    Rule(*TRAINER, backpropagation="training_step _clip_grad_norm _get_grad_norm"),
    Rule(
        *TRAINER,
        evaluation="evaluate predict",
        checkpoint="_save_checkpoint save_model",
    ),
    Rule(
        "transformers.generation.utils",
        "GenerationMixin",
        generation="generate",
        around=_counting,
    ),
    Rule("trl.trainer.callbacks", "SyncRefModelCallback", sync="on_step_end"),
    Rule(*VLLM, sync="sync_weights", generation="generate"),
    Rule("verl.utils.profiler.performance", "", "_timer", around=_timed),
]
for on_policy in (
    ("trl.trainer.grpo_trainer", "GRPOTrainer+"),
    ("trl.trainer.rloo_trainer", "RLOOTrainer+"),
    ("trl.experimental.online_dpo.online_dpo_trainer", "OnlineDPOTrainer+"),
):
    RULES += [
        Rule(*on_policy, generation="_generate _generate_vllm"),
        Rule(*on_policy, reward="_calculate_rewards _calculate_rewards_from_functions"),
        Rule(*on_policy, reference=LOGPROBS, unless=_with_gradients),
        Rule(*on_policy, sync="_move_model_to_vllm"),
    ]
CARD = Card(
    "Hugging Face transformers, TRL, verl",
    rules=RULES,
    loop="trl",
    settings=[
        Settings(
            update="raise per_device_train_batch_size and lower gradient_accumulation_steps, or lower num_iterations",
            passes="lower num_iterations",
        )
    ],
)
