"""Language models: Hugging Face transformers, TRL and verl.

An iteration of transformers and TRL is an optimizer step. TRL generates, scores and updates within one `training_step`: the parts
have names of their own, what is left of it is the update. Log-probabilities without gradients are `reference`. verl's own timers
say what each part of a step is; all of them go through one function.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterator

from cutaway import _recorder
from cutaway.record import gauges
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, begin_iteration, instrument_items
from cutaway.record.imports import Any

_rounds = threading.local()  # when each token of a running `generate` was begun
_named_rewards: set[int] = set()  # workers whose rewards open operations
_generated: dict[int, int] = {}  # the step at which a trainer's batch was sampled


def _counting(
    generate: Callable[..., Any], model: Any, *args: Any, **kwargs: Any
) -> Any:
    _rounds.begun = []
    made = generate(model, *args, **kwargs)
    begun, _rounds.begun = _rounds.begun, []
    try:
        lengths = _new_tokens(model, args, kwargs, made)
        gauges.count_tokens(sum(lengths))
        gauges.gauge_since("sequences", _decoding(lengths, begun))
    except Exception as error:  # a model of another kind: its tokens are not counted
        _recorder.note(f"tokens of {type(model).__name__} are not counted: {error}")
    return made


def _new_tokens(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], made: Any
) -> list[int]:
    """Tokens after the prompt, of each row; one that ended early is padded, and padding is no token."""
    prompt = args[0] if args else kwargs.get("inputs", kwargs.get("input_ids"))
    sequences = getattr(made, "sequences", made)
    skipped = (
        0 if model.config.is_encoder_decoder or prompt is None else prompt.shape[1]
    )
    new = sequences[:, skipped:]
    config = kwargs.get("generation_config") or model.generation_config
    pad, end = config.pad_token_id, config.eos_token_id
    rows, width = new.shape
    if pad is None:
        return [int(width)] * int(rows)
    padded = new == pad
    made_of_row = width - padded.sum(1)
    if pad in (end if isinstance(end, list) else [end]):
        # Where the end is also the padding, the first one of a row was generated.
        made_of_row = made_of_row + padded.any(1).long()
    lengths: list[int] = made_of_row.tolist()
    return lengths


def _decoding(lengths: list[int], begun: list[int]) -> list[tuple[int, float]]:
    """How many rows were still generating in each round, and none after the last."""
    points = []
    for made, at in enumerate(begun):
        points.append((at, float(sum(length > made for length in lengths))))
    return points


def _round(model: Any) -> None:
    begun = getattr(_rounds, "begun", None)
    if begun is not None:
        begun.append(time.monotonic_ns())


def _synced(engine: Any, nothing: Any) -> None:
    gauges.gauge("policy version", gauges.last("policy version") + 1)


def _sampled(trainer: Any, nothing: Any) -> None:
    _generated[id(trainer)] = int(trainer.state.global_step)


def _trains(trainer: Any) -> None:
    """Updates since the batch was sampled: a batch may serve several of them."""
    step = int(trainer.state.global_step)
    gauges.gauge("staleness", step - _generated.get(id(trainer), step))


def _calls_tools(trainer: Any) -> None:
    """TRL looks its tools up in dictionaries that are made anew for each batch."""
    for tools in (*trainer._sync_tool_dicts, *trainer._async_tool_dicts):
        tools.update(_named(tools))


def _named(tools: dict[str, Callable[..., Any]]) -> dict[str, Callable[..., Any]]:
    return {name: _called("tool", tool) for name, tool in tools.items()}


def _called(operation: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """It opens an operation. If it waits on an event loop, only the stretches in which it runs are its own."""
    call = functools.wraps(function)
    if inspect.iscoroutinefunction(function):

        @call
        async def wait(*args: Any, **kwargs: Any) -> Any:
            with _recorder.operation(operation):
                return await function(*args, **kwargs)

        return wait

    @call
    def run(*args: Any, **kwargs: Any) -> Any:
        with _recorder.operation(operation):
            return function(*args, **kwargs)

    return run


def _with_tools(
    execute: Callable[..., Any], worker: Any, calls: Any, tools: Any
) -> Any:
    """The asynchronous trainer calls tools in threads of its worker."""
    return execute(worker, calls, _named(tools))


def _scores(worker: Any) -> None:
    """Its worker calls rewards in threads, too."""
    if id(worker) in _named_rewards:
        return
    _named_rewards.add(id(worker))
    worker.reward_funcs = [_called("reward", one) for one in worker.reward_funcs]


def _read_metrics(trainer: Any) -> None:
    """The asynchronous trainer counts for itself."""
    found = trainer._metrics["train"]
    gauges.gauge("policy version", trainer.model_version)
    for metric, name in _ASYNC.items():
        values = found.get(metric)
        if values:
            gauges.gauge(name, float(values[-1]))
    for metric, name in _COUNTED.items():
        # The lists begin anew when the trainer has logged them.
        length = len(found.get(metric) or ())
        before = _read.get(metric, 0)
        new = length - before if length >= before else length
        _read[metric] = length
        gauges.gauge(name, gauges.last(name) + new)


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
    "tool": "tool_calls",
    "replay": "wait_for_enough_samples",
}
VERL_TIMERS: dict[str, str] = {}
for _operation, _timers in _TIMERS.items():
    VERL_TIMERS.update(dict.fromkeys(_timers.split(), _operation))
TRAINER = ("transformers.trainer", "Trainer+")
_ASYNC = {"sample/rollout_queue_size": "queue", "sample/staleness_mean": "staleness"}
_COUNTED = {
    "sample/dropped_stale_total": "discarded",
    "sample/staleness_mean": "trained",
}
_read: dict[str, int] = {}
ASYNC = "trl.experimental.async_grpo.async_grpo_trainer"
WORKER = ("trl.experimental.async_grpo.async_rollout_worker", "_AsyncRolloutLoop")
LOGPROBS = "_get_per_token_logps_and_entropies _forward"
VLLM = ("trl.generation.vllm_generation", "VLLMGeneration+")
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
    # What `generate` does besides reading the prompt is decoding.
    Rule("transformers.generation.utils", "GenerationMixin", prefill="_prefill"),
    Rule("transformers.generation.utils", "GenerationMixin", decode="_sample"),
    Rule(
        "transformers.generation.utils",
        "GenerationMixin",
        "_has_unfinished_sequences",
        on_enter=_round,
    ),
    Rule("trl.trainer.callbacks", "SyncRefModelCallback", sync="on_step_end"),
    Rule(*VLLM, sync="sync_weights", on_exit=_synced),
    Rule(*VLLM, generation="generate"),
    Rule(
        "trl.generation.vllm_client",
        "VLLMClient+",
        parts={
            "sync: start": "_start_weight_update",
            "sync: update": "update_named_params",
            "sync: finish": "_finish_weight_update",
        },
    ),
    Rule(ASYNC, "AsyncGRPOTrainer+", sync="_sync_weight"),
    Rule(ASYNC, "AsyncGRPOTrainer+", "_log_step_metrics", on_enter=_read_metrics),
    Rule(ASYNC, "RolloutQueueDataset", replay="__iter__", by=instrument_items),
    Rule(*WORKER, "_execute_tool_calls", around=_with_tools),
    Rule(*WORKER, "_score_group", on_enter=_scores),
    Rule(
        "trl.experimental.async_grpo.weight_transfer",
        "WeightTransferClient+",
        parts={
            "sync: pause": "pause",
            "sync: update": "send_weights",
            "sync: resume": "resume",
        },
    ),
    Rule("verl.utils.profiler.performance", "", "_timer", around=_timed),
]
for on_policy in (
    ("trl.trainer.grpo_trainer", "GRPOTrainer+"),
    ("trl.trainer.rloo_trainer", "RLOOTrainer+"),
    ("trl.experimental.online_dpo.online_dpo_trainer", "OnlineDPOTrainer+"),
):
    RULES += [
        Rule(*on_policy, "_tool_call_loop", on_enter=_calls_tools),
        Rule(*on_policy, generation="_generate _generate_vllm"),
        Rule(*on_policy, reward="_calculate_rewards _calculate_rewards_from_functions"),
        Rule(*on_policy, reference=LOGPROBS, unless=_with_gradients),
        Rule(*on_policy, sync="_move_model_to_vllm"),
        Rule(*on_policy, "_generate_and_score_completions", on_exit=_sampled),
        Rule(*on_policy, "compute_loss", on_enter=_trains),
    ]
CARD = Card(
    "Hugging Face transformers, TRL, verl",
    rules=RULES,
    loop="trl",
    settings=[
        Settings(
            update="raise per_device_train_batch_size and lower gradient_accumulation_steps, or lower num_iterations",
            passes="lower num_iterations",
            tail="lower max_completion_length, or sample ahead with AsyncGRPOTrainer",
            more_rollout="give vLLM more GPUs (tensor_parallel_size, data_parallel_size of trl vllm-serve)",
            idle_rollout="give the trainer more GPUs, or lower num_iterations",
            cheaper_sync="use vllm_mode='colocate', or raise steps_per_generation (weight_sync_steps in AsyncGRPOTrainer)",
            fresher="lower max_staleness or max_inflight_tasks in AsyncGRPOTrainer, num_iterations or steps_per_generation in GRPOTrainer",
        )
    ],
)
