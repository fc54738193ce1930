"""What to try, as a setting of the library in use or a line of the user's own; and what it can save at most."""

from __future__ import annotations

from dataclasses import dataclass

from .evidence import Evidence
from .text import NONE


@dataclass(frozen=True)
class Settings:
    """What a framework calls its settings: environments in `{n}` processes (`fewer`: in as many as there are cores), more
    environments for each policy call, a cheaper update. An empty text means that it has none."""

    workers: str = ""
    fewer: str = ""
    inference: str = ""
    update: str = ""


FRAMEWORKS = {
    "ray": Settings(
        "set num_env_runners={n}",
        "num_env_runners={n}",
        "raise num_envs_per_env_runner, so that one forward pass serves more environments",
        "raise minibatch_size (fewer, larger minibatches), or lower num_epochs",
    ),
    "stable_baselines3": Settings(
        "use make_vec_env(..., n_envs={n}, vec_env_cls=SubprocVecEnv)",
        "n_envs={n} in SubprocVecEnv, or DummyVecEnv",
        "raise n_envs, so that one forward pass serves more environments",
        "raise batch_size (fewer, larger minibatches), or lower n_epochs or gradient_steps",
    ),
    "tianshou": Settings(
        "use SubprocVectorEnv with {n} environments",
        "{n} environments in SubprocVectorEnv, or DummyVectorEnv",
        "put more environments into the training VectorEnv, so that one forward pass serves more of them",
        "raise batch_size, or lower update_step_num_repetitions or update_step_num_gradient_steps_per_sample",
    ),
    "torchrl": Settings(
        "use ParallelEnv({n}, ...)",
        "ParallelEnv({n}, ...)",
        "put more environments into ParallelEnv or SerialEnv, so that one forward pass serves more of them",
        "use fewer, larger minibatches, and torch.compile the loss",
    ),
    "skrl": Settings(
        'use gymnasium.make_vec(..., num_envs={n}, vectorization_mode="async")',
        "num_envs={n}",
        "raise num_envs, so that one forward pass serves more environments",
        "lower mini_batches or learning_epochs (PPO), or gradient_steps (DQN, DDPG, TD3, SAC)",
    ),
    "d3rlpy": Settings(update="raise batch_size, train fewer steps, or set compile_graph=True on a GPU"),
    "sample_factory": Settings(
        "set --num_workers={n}",
        "--num_workers={n}",
        "raise --num_envs_per_worker, so that one forward pass serves more environments",
        "raise --batch_size, or lower --num_epochs",
    ),
    "trl": Settings(
        update="raise per_device_train_batch_size and lower gradient_accumulation_steps, or lower num_iterations"
    ),
}
"""Frameworks with a training loop of their own, the one to ask first on top. Others are asked by the library they use."""

SLOW_STEP_US = 200.0
"""Below this a step in another process costs more in pipes (about 100 µs) than it saves."""


def amdahl(removed: float) -> float:
    """Speed-up when `removed` of the time disappears.

    >>> amdahl(0.5)
    2.0
    """
    return 1.0 / max(0.01, 1.0 - min(removed, 0.99))


def has(e: Evidence, *names: str) -> bool:
    """Whether a run used one of these libraries."""
    return any(name in e.libraries for name in names)


def with_your_line(e: Evidence, operation: str, text: str) -> str:
    """Advice, and your line it is about."""
    line = e.lines.get(operation)
    return f"{text}; most of it is at your {line}" if line else text


def hot_line(e: Evidence, operation: str, what: str) -> str:
    """Advice that begins with your line."""
    line = e.lines.get(operation)
    return f"at your {line}: {what}" if line else what


def record_again(e: Evidence) -> str:
    """What to do about a recording that is too short."""
    if e.failure and not e.failure.startswith("The program was interrupted"):
        return "fix what ended it, then record again"
    iterates = e.unit == "iteration"
    return (
        "record longer" if iterates else "record longer, and mark the training loop with cutaway.iteration()"
    )


def name_it(e: Evidence) -> str:
    """What to do about time without a name."""
    line = e.lines.get("")
    where = f", first at your {line}" if line else ""
    return f'name the parts of the loop with cutaway.operation("simulation") etc.{where}'


def setting(e: Evidence, name: str) -> str:
    """A setting of the framework in use; empty if there is none."""
    found = (getattr(settings, name) for library, settings in FRAMEWORKS.items() if has(e, library))
    return next(filter(None, found), "")


def more_environments(e: Evidence, count: int) -> str:
    """How to step environments in `count` processes."""
    if known := setting(e, "workers"):
        return known.format(n=count)
    if has(e, "gymnasium"):
        return f'use gymnasium.make_vec(..., num_envs={count}, vectorization_mode="async")'
    return f"step the environments in {count} processes"


def fewer_at_once(e: Evidence) -> str:
    """Fewer threads in each process where their pools are too many, else fewer processes."""
    each = max(1, e.cores // max(1, e.processes))
    pools = f"OMP_NUM_THREADS={each}" + (f" or torch.set_num_threads({each})" if has(e, "torch") else "")
    if e.processes <= e.cores or e.runnable > e.processes:
        return f"cap the thread pool of each process: {pools}"
    known = setting(e, "fewer").format(n=e.cores - 1 if has(e, "ray") else e.cores)
    return f"use {e.cores} processes instead of {e.processes}{f' ({known})' if known else ''}, and {pools}"


def parallel_simulation(e: Evidence) -> str:
    """What to do about simulation in the main process."""
    if _spreads(e):
        more = f"{more_environments(e, 1 + e.idle_cores)}: {e.idle_cores} of {e.cores} cores are idle"
        return with_your_line(e, "simulation", more)
    short = f"a step takes {e.step_us:.0f} µs, too short to pay for a pipe" if e.step_us else ""
    sampled = e.cores_busy is not None and e.foreign is not None
    why = short if e.idle_cores and short else "every core is in use" if sampled else ""
    vectorised = 'gymnasium.make_vec(..., vectorization_mode="vector_entry_point") or EnvPool'
    faster = f"use a natively vectorised simulator ({vectorised})"
    return with_your_line(e, "simulation", faster + (f": {why}" if why else ""))


def _spreads(e: Evidence) -> bool:
    """Whether there are idle cores for environments whose steps are long enough."""
    return e.idle_cores > 0 and (e.step_us is None or e.step_us >= SLOW_STEP_US)


def spread_gain(e: Evidence, share: float, workers: int) -> float:
    """Share saved when the work of `workers` processes is spread over the idle cores as well."""
    return min(share * (1 - workers / (workers + e.idle_cores)), e.idle_share)


def parallel_gain(e: Evidence) -> float | None:
    """Share saved by stepping environments on the idle cores too; half of it where something faster is needed."""
    share = e.operation.get("simulation", 0.0)
    return spread_gain(e, share, 1) if _spreads(e) else share / 2


def parallel_given(e: Evidence) -> str:
    """The assumption of `parallel_gain`."""
    return (
        f"if it spreads evenly over {1 + e.idle_cores} processes"
        if _spreads(e)
        else "if that took half the time"
    )


def more_workers(e: Evidence) -> str:
    """What to do when the main process waits for workers that simulate."""
    if not e.idle_cores or e.blocked is None:
        faster = "use a faster or natively vectorised simulator, or overlap it with training"
        return f"{faster}: every core is in use"
    more = e.blocked.count + e.idle_cores
    named = more_environments(e, more)
    if named.startswith("step the"):
        named = f"use {more} environment workers"
    return f"{named}: {e.idle_cores} of {e.cores} cores are idle"


def faster_answers(e: Evidence) -> str:
    """What to do when the main process waits for inference in other processes: one that serves, or actors that act for themselves."""
    if e.blocked is None or e.blocked.role == "inference" or e.blocked.count == 1:
        return "answer larger batches of requests at once, or use more inference processes"
    return f"{larger_inference(e)}, in each of the {e.blocked.count} {e.blocked.role} processes"


def larger_inference(e: Evidence) -> str:
    """What to do about inference."""
    if known := setting(e, "inference"):
        return known
    compiled = ", or torch.compile the policy" if has(e, "torch") else ""
    return f"step more environments for each policy call (num_envs=){compiled}"


def cheaper_update(e: Evidence) -> str:
    """What to do about the update."""
    if known := setting(e, "update"):
        return known
    in_python = e.cell.get(("backpropagation", "python"), 0) > e.operation["backpropagation"] / 3
    if has(e, "jax") and in_python:
        return "jit the whole update, with jax.lax.scan over minibatches"
    if has(e, "jax"):
        return "update less often, or with a smaller batch or network: the update is compiled already"
    if has(e, "tensorflow") and in_python:
        return "put the whole update into one tf.function, and use fewer, larger minibatches"
    if has(e, "tensorflow"):
        return "use fewer, larger minibatches, and tf.function(jit_compile=True)"
    if has(e, "torch"):
        return "use fewer, larger minibatches, torch.compile the loss, and Adam(..., fused=True)"
    return "use fewer, larger minibatches, and compile the update"


def largest_operation(e: Evidence) -> str:
    """Where to start when nothing stands out: your line, or the setting for the largest operation."""
    if e.top in e.lines:
        return f"start with your {e.lines[e.top]}"
    return BY_OPERATION[e.top](e) if e.top in BY_OPERATION else f"start with your code in {e.top or NONE}"


def less_python(e: Evidence) -> str:
    """What to do about Python: your line; where a framework runs the whole loop, the setting that makes fewer calls do the same work."""
    operation = e.largest_in("python")
    if operation in e.lines or operation not in BY_OPERATION:
        return hot_line(e, operation, "vectorise the loop or remove wrappers")
    return BY_OPERATION[operation](e)


BY_OPERATION = {
    "inference": larger_inference,
    "backpropagation": cheaper_update,
    "simulation": parallel_simulation,
}


def overlap_gain(e: Evidence) -> float:
    """Overlap ends a wait at best when all other work hides in it, or it in all other work; and needs idle cores."""
    wait = e.layer.get("wait", 0.0)
    return min(wait, 1.0 - wait, e.idle_share)


def evened_out_gain(e: Evidence) -> float | None:
    """If all workers worked as long as their mean: evening out moves work, it removes none. Where they share cores, nobody can
    tell: measured, it was a third of what the idle cores allow."""
    if e.blocked is None or e.blocked.count > e.cores:
        return None
    return min(e.blocked.share, e.blocked.excess, e.idle_share)
