"""vLLM: what its engine does in each step, in whatever process it lives.

A step that reads prompts is `prefill`, also where other sequences decode in it; any other is `decode`. The scheduler says how many
sequences run and wait, and which tokens came out. Weights arrive in up to five steps, and memory is given away (`sleep`) and taken
back (`wake`) between them.
"""

from __future__ import annotations

from collections.abc import Callable

from cutaway import _recorder
from cutaway.record import gauges
from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any
from cutaway.vocabulary import SYNC_STEPS

STEPS = tuple(f"sync: {step}" for step in SYNC_STEPS)
READ, MADE = "prefill", "decode"
_open = ""  # what this process's engine is doing
_cache: dict[int, int] = {}  # bytes of KV cache by engine


def _stepping(step: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    try:
        return step(*args, **kwargs)
    finally:
        _end()


def _begin(kind: str) -> None:
    global _open
    _end()
    _recorder.begin_operation(kind)
    _open = kind


def _end() -> None:
    global _open
    if _open:
        _recorder.end_operation(_open)
        _open = ""


def _kind(scheduled: Any) -> str:
    """Whether a step reads prompts. A request that has made no token yet is still being read."""
    if scheduled.scheduled_new_reqs:
        return READ
    made = getattr(scheduled.scheduled_cached_reqs, "num_output_tokens", ())
    return READ if 0 in made else MADE


def _scheduled(scheduler: Any, scheduled: Any) -> None:
    if scheduled.total_num_scheduled_tokens:
        _begin(_kind(scheduled))
    _count_requests(scheduler)


def _updated(scheduler: Any, outputs: Any) -> None:
    made = 0
    for client in outputs.values():
        for request in client.outputs:
            made += len(request.new_token_ids)
    gauges.count_tokens(made)
    _count_requests(scheduler)
    if not scheduler.running and not scheduler.waiting:
        # Servers kill their engines, which would lose what is written now and then.
        gauges.write()


def _count_requests(scheduler: Any) -> None:
    gauges.gauge("sequences", len(scheduler.running))
    gauges.gauge("waiting", len(scheduler.waiting))


def _working(execute: Callable[..., Any], worker: Any, scheduled: Any, *args: Any, **kwargs: Any) -> Any:  # fmt: skip
    """A worker in a process of its own; where the engine is in this process, its step has a name already."""
    if _open or not scheduled.total_num_scheduled_tokens:
        return execute(worker, scheduled, *args, **kwargs)
    with _recorder.operation(_kind(scheduled)):
        return execute(worker, scheduled, *args, **kwargs)


def _cached(initialize: Callable[..., Any], executor: Any, configs: Any) -> Any:
    made = initialize(executor, configs)
    held = 0
    for config in configs:
        held += sum(tensor.size for tensor in config.kv_cache_tensors)
    _cache[id(executor)] = held
    gauges.gauge("KV cache", held)
    return made


def _asleep(executor: Any, nothing: Any) -> None:
    gauges.gauge("KV cache", 0)


def _waking(wake: Callable[..., Any], executor: Any, tags: Any = None) -> Any:
    done = wake(executor, tags)
    if "kv_cache" not in executor.sleeping_tags:
        gauges.gauge("KV cache", _cache.get(id(executor), 0))
    return done


CORE = ("vllm.v1.engine.core", "EngineCore+")
EXECUTOR = ("vllm.v1.executor.abstract", "Executor+")
SCHEDULER = ("vllm.v1.core.sched.scheduler", "Scheduler+")
WORKER = ("vllm.v1.worker.gpu_worker", "Worker+")
CARD = Card(
    "vLLM",
    version="0.32",
    rules=[
        Rule("vllm.entrypoints.llm", "LLM", generation="generate chat"),
        Rule(*CORE, "step step_with_batch_queue", around=_stepping),
        Rule(*SCHEDULER, "schedule", on_exit=_scheduled),
        Rule(*SCHEDULER, "update_from_output", on_exit=_updated),
        Rule(
            "vllm.v1.worker.worker_base",
            "WorkerWrapperBase",
            "execute_model",
            around=_working,
        ),
        Rule(*EXECUTOR, "initialize_from_config", around=_cached),
        Rule(
            *EXECUTOR,
            parts={"sync: sleep": "sleep"},
            on_exit=_asleep,
            hidden_in=STEPS,
        ),
        Rule(
            *EXECUTOR,
            parts={"sync: wake": "wake_up"},
            around=_waking,
            hidden_in=STEPS,
        ),
        Rule(
            *CORE,
            parts={
                "sync: pause": "pause_scheduler",
                "sync: resume": "resume_scheduler",
            },
            hidden_in=STEPS,
        ),
        Rule(
            *WORKER,
            parts={
                "sync: start": "start_weight_update",
                "sync: update": "update_weights",
                "sync: finish": "finish_weight_update",
            },
            hidden_in=STEPS,
        ),
    ],
    settings=[
        Settings(
            tail="cap the length (max_tokens), or let the next requests in while the last ones finish",
            idle_rollout="send more requests at once, up to max_num_seqs",
        )
    ],
)
