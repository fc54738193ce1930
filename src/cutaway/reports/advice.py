"""What to try, as a setting of the library in use or a line of the user's own; and what it can save at most."""

from __future__ import annotations

from cutaway.record.frameworks import cards

from .evidence import SLOW_STEP_US, Evidence
from .family import OFF_POLICY, ONE_PASS
from .text import NONE

LONG_CALL_US = 40.0
"""A native call of the update that takes longer computes; a shorter one mostly costs its own start."""
MOST_WAIT = 0.9
AT_ONCE = 4
"""Environments to start with where the simulator waits: more of them cost no core."""
AS_LONG_AS = 8
"""A call for all steps of a rollout is taken to cost as much as so many calls for one step: it has more to compute."""


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
    if line:
        return f"{text}; most of it is at your {line}"
    return text


def hot_line(e: Evidence, operation: str, what: str) -> str:
    """Advice that begins with your line."""
    line = e.lines.get(operation)
    if line:
        return f"at your {line}: {what}"
    return what


def record_again(e: Evidence) -> str:
    """What to do about a recording that is too short."""
    if e.failure and not e.failure.startswith("The program was interrupted"):
        return "fix what ended it, then record again"
    iterates = e.unit == "iteration"
    if iterates:
        return "record longer"
    return "record longer, and mark the training loop with cutaway.iteration()"


def name_it(e: Evidence) -> str:
    """What to do about time without a name."""
    line = e.lines.get("")
    where = f", first at your {line}" if line else ""
    return (
        f'name the parts of the loop with cutaway.operation("simulation") etc.{where}'
    )


def setting(e: Evidence, name: str) -> str:
    """A setting of the framework in use, as its version calls it (`name` is an argument of `card.Settings`); empty if there is
    none. Frameworks with a training loop of their own are asked; others have the settings of the library they use."""
    found = (
        card.setting(name, e.versions.get(package, ""))
        for package, card in cards.every().items()
        if has(e, package)
    )
    return next(filter(None, found), "")


def more_environments(e: Evidence, count: int) -> str:
    """How to step environments in `count` processes."""
    if known := setting(e, "workers"):
        return known.format(n=count)
    if _is_gymnasium(e, 0, 29):
        return (
            f'use gymnasium.make_vec(..., num_envs={count}, vectorization_mode="async")'
        )
    if has(e, "gymnasium", "gym"):
        package = "gymnasium" if has(e, "gymnasium") else "gym"
        return f"use {package}.vector.AsyncVectorEnv with {count} environments"
    return f"step the environments in {count} processes"


def _is_gymnasium(e: Evidence, *least: int) -> bool:
    """Whether environments are gymnasium's, of this version or later; one without a version is new."""
    if not has(e, "gymnasium"):
        return False
    numbers = e.versions.get("gymnasium", "").split(".")[:2]
    return not all(map(str.isdigit, numbers)) or tuple(map(int, numbers)) >= least


def fewer_at_once(e: Evidence) -> str:
    """Fewer threads in each process where their pools are too many, else fewer processes."""
    each = max(1, e.cores // max(1, e.processes))
    pools = f"OMP_NUM_THREADS={each}" + (
        f" or torch.set_num_threads({each})" if has(e, "torch") else ""
    )
    if e.processes <= e.cores or e.runnable > e.processes:
        return f"cap the thread pool of each process: {pools}"
    known = setting(e, "fewer").format(n=e.cores - 1 if has(e, "ray") else e.cores)
    return f"use {e.cores} processes instead of {e.processes}{f' ({known})' if known else ''}, and {pools}"


def faster_generation(e: Evidence) -> str:
    """What to do about a language model that generates most of the time."""
    if has(e, "vllm", "sglang"):
        return "give the engine larger batches: more prompts at once, a larger max_num_seqs"
    return "generate larger batches, or with an inference engine (use_vllm=True in TRL)"


def parallel_simulation(e: Evidence) -> str:
    """What to do about simulation in the main process."""
    if _spreads(e):
        more = f"{more_environments(e, 1 + e.idle_cores)}: {e.idle_cores} of {e.cores} cores are idle"
        return with_your_line(e, "simulation", more)
    short = (
        f"a step takes {e.step_us:.0f} µs, too short to pay for a pipe"
        if e.step_us
        else ""
    )
    sampled = e.cores_busy is not None and e.other_cores is not None
    why = short if e.idle_cores and short else "every core is in use" if sampled else ""
    return with_your_line(
        e, "simulation", faster_steps(e) + (f": {why}" if why else "")
    )


def faster_steps(e: Evidence) -> str:
    """A simulator of your own has no other mode, and no EnvPool."""
    vectorised = "use a natively vectorised simulator"
    if _is_gymnasium(e, 1, 0):
        mode = 'gymnasium.make_vec(..., vectorization_mode="vector_entry_point")'
        return f"{vectorised} ({mode} or EnvPool)"
    if has(e, "gymnasium", "gym", "envpool"):
        return f"{vectorised} (EnvPool)"
    compiled = "numba"
    if has(e, "torch"):
        compiled = "torch.compile"
    if has(e, "jax"):
        compiled = "jax.jit"
    many = "make a step cheaper: one call for all environments"
    return f"{many}, or compile it ({compiled})"


def _spreads(e: Evidence) -> bool:
    """Whether there are idle cores for environments whose steps are long enough."""
    return e.idle_cores > 0 and (e.step_us is None or e.step_us >= SLOW_STEP_US)


def parallel_gain(e: Evidence) -> float | None:
    """Share saved by stepping environments on the idle cores too; half of it where something faster is needed."""
    share = e.operation.get("simulation", 0.0)
    if not _spreads(e):
        return share / 2
    return min(share * (1 - 1 / (1 + e.idle_cores)), e.idle_share)


def parallel_given(e: Evidence) -> str:
    """The assumption of `parallel_gain`."""
    if _spreads(e):
        return f"if it spreads evenly over {1 + e.idle_cores} processes"
    return "if that took half the time"


def more_workers(e: Evidence) -> str:
    """What to do when the main process waits for workers that simulate."""
    if not e.idle_cores or e.blocked is None:
        faster = (
            "use a faster or natively vectorised simulator, or overlap it with training"
        )
        return f"{faster}: every core is in use"
    more = e.blocked.count + e.idle_cores
    named = more_environments(e, more)
    if named.startswith("step the"):
        named = f"use {more} environment workers"
    return f"{named}: {e.idle_cores} of {e.cores} cores are idle"


def faster_samples(e: Evidence) -> str:
    """What to do when a learner waits for what others sample."""
    most = ""
    if e.busiest:
        most = f"; of the others {e.busiest} computes most"
    if not e.idle_cores:
        return f"make samples cheaper: every core is in use{most}"
    more = e.sample_makers + e.idle_cores
    named = setting(e, "workers").format(n=more)
    if not named:
        named = f"use {more} processes that simulate"
    idle = f"{e.idle_cores} of {e.cores} cores are idle"
    return f"{named}: {idle}{most}"


def faster_answers(e: Evidence) -> str:
    """What to do when the main process waits for inference in other processes: one that serves, or actors that act for themselves."""
    if e.blocked is None or e.blocked.role == "inference" or e.blocked.count == 1:
        return (
            "answer larger batches of requests at once, or use more inference processes"
        )
    return f"{larger_inference(e)}, in each of the {e.blocked.count} {e.blocked.role} processes"


def larger_inference(e: Evidence) -> str:
    """What to do about inference."""
    if known := setting(e, "inference"):
        return known
    compiled = ", or torch.compile the policy" if has(e, "torch") else ""
    where = ""
    if _is_gymnasium(e, 0, 29):
        where = " (gymnasium.make_vec(..., num_envs=))"
    return f"step more environments for each policy call{where}{compiled}"


def cheaper_update(e: Evidence) -> str:
    """What to do about the update. Larger minibatches help only where an algorithm passes over a rollout and calls are so short
    that their number counts."""
    if e.family == OFF_POLICY and _offline(e):
        return f"use a smaller network or batch{_compiled(e)}"
    if e.family == OFF_POLICY:
        return (
            setting(e, "rarer")
            or f"make fewer updates for each step, or use a smaller batch{_compiled(e)}"
        )
    if e.one_by_one:
        return (
            f"handle all steps of a rollout in one call instead of one after the other "
            f"(at {e.one_by_one.line}): stack them, and run the network once with gradients"
        )
    if e.family == ONE_PASS:
        return f"make fewer updates: longer rollouts for each of them{_compiled(e)}"
    if grows_with_the_batch(e):
        return (
            setting(e, "passes")
            or f"make fewer passes over each rollout, or use a smaller network{_compiled(e)}"
        )
    return setting(e, "update") or _fewer_calls(e)


def _offline(e: Evidence) -> bool:
    """It draws batches and nothing steps an environment but evaluation: no step asks for an update."""
    alone = e.processes == 1 and not e.blocked
    return alone and "replay" in e.operation and "simulation" not in e.operation


def cheaper_update_gain(e: Evidence) -> float:
    """Share saved by `cheaper_update`."""
    share = e.operation["backpropagation"]
    if _stacks(e):
        assert e.one_by_one
        return share * (1 - AS_LONG_AS / e.one_by_one.steps)
    return share / 2


def cheaper_update_given(e: Evidence) -> str:
    """The assumption of `cheaper_update_gain`."""
    if _stacks(e):
        return f"if one call for all steps takes as long as {AS_LONG_AS} calls do now"
    return "if that took half the time"


def _stacks(e: Evidence) -> bool:
    """Whether one call for all steps of a rollout costs about as little as one for a single step: calls are short now."""
    by_family = e.family == OFF_POLICY or e.one_by_one is None
    return not by_family and (e.update_call_us or 0.0) < LONG_CALL_US


def grows_with_the_batch(e: Evidence) -> bool:
    """Whether most of the update is spent inside calls that are long: these compute, and a larger batch takes them longer. Short
    calls cost the same for any batch."""
    computed = e.cell.get(("backpropagation", "backend"), 0.0)
    return (e.update_call_us or 0.0) >= LONG_CALL_US and computed > e.operation.get(
        "backpropagation", 0.0
    ) / 2


def _in_python(e: Evidence) -> bool:
    return (
        e.cell.get(("backpropagation", "python"), 0)
        > e.operation.get("backpropagation", 0.0) / 3
    )


def _compiled(e: Evidence) -> str:
    """How to compile the update, after a comma."""
    if has(e, "jax"):
        if _in_python(e):
            return ", and jit the whole update"
        return ""
    if has(e, "tensorflow"):
        return ", and put the update into tf.function(jit_compile=True)"
    if has(e, "torch"):
        return ", and torch.compile the loss"
    return ""


def less_compiling(e: Evidence) -> str:
    """A function compiles once, which a short run mostly does."""
    cache = ""
    if has(e, "jax"):
        kept = "keeps compiled functions for the next run"
        cache = f"; jax_compilation_cache_dir {kept}"
    once = "record longer, since each function compiles once"
    same = "keep shapes and dtypes the same, so that nothing is compiled twice"
    return f"{once}; if that goes on, {same}{cache}"


def _fewer_calls(e: Evidence) -> str:
    """For an update of many short calls."""
    if has(e, "jax") and _in_python(e):
        return "jit the whole update, with jax.lax.scan over minibatches"
    if has(e, "jax"):
        return "update less often, or with a smaller batch or network: the update is compiled already"
    if has(e, "tensorflow") and _in_python(e):
        return "put the whole update into one tf.function, and use fewer, larger minibatches"
    if has(e, "tensorflow"):
        return "use fewer, larger minibatches, and tf.function(jit_compile=True)"
    if has(e, "torch"):
        return "use fewer, larger minibatches, torch.compile the loss, and fused=True in Adam, AdamW or SGD"
    return "use fewer, larger minibatches, and compile the update"


def largest_operation(e: Evidence) -> str:
    """Where to start when nothing stands out: your line, or the setting for the largest operation."""
    if e.top in e.lines:
        return f"start with your {e.lines[e.top]}"
    if e.top in BY_OPERATION:
        return BY_OPERATION[e.top](e)
    return f"start with your code in {e.top or NONE}"


def _rarer(e: Evidence) -> str:
    """The setting for fewer updates, each of which draws a batch; empty where batches are not drawn so."""
    return setting(e, "rarer") if e.family in (OFF_POLICY, "") else ""


def less_python(e: Evidence) -> str:
    """What to do about Python: your line; where a framework runs the whole loop, the setting that makes fewer calls do the same work."""
    operation = _operation_to_change(e)
    if operation == "replay":
        return _rarer(e)
    if operation:
        return BY_OPERATION[operation](e)
    return hot_line(e, e.largest_in("python"), "vectorise the loop or remove wrappers")


def less_python_gain(e: Evidence) -> float | None:
    """Share saved by `less_python`: advice about one operation saves nothing of the others."""
    operation = _operation_to_change(e)
    if operation == "simulation":
        return parallel_gain(e)
    if operation:
        return e.operation.get(operation, 0.0) / 2
    return e.layer["python"] / 2


def less_python_given(e: Evidence) -> str:
    """The assumption of `less_python_gain`."""
    if _operation_to_change(e) == "simulation":
        return parallel_given(e)
    return "if that took half the time"


def _operation_to_change(e: Evidence) -> str:
    """The operation that `less_python` advises about; empty where it names a line."""
    operation = e.largest_in("python")
    if operation in e.lines:
        return ""
    if operation == "replay":
        return operation if _rarer(e) else ""
    return operation if operation in BY_OPERATION else ""


BY_OPERATION = {
    "inference": larger_inference,
    "backpropagation": cheaper_update,
    "simulation": parallel_simulation,
}


def ended_wait(share: float) -> float | None:
    """A wait that ends saves its own time and no more: a bound. One that is nearly everything says nothing."""
    return share if share <= MOST_WAIT else None


def in_one_process(e: Evidence) -> str:
    """How to step environments without workers."""
    known = setting(e, "one_process")
    if not known and has(e, "gymnasium"):
        known = 'SyncVectorEnv, or vectorization_mode="sync"'
    return f"step the environments in the main process{f' ({known})' if known else ''}"


def one_process_gain(e: Evidence) -> float:
    """Share saved if the main process simulated itself what its workers do now, instead of handing it over."""
    if e.blocked is None:
        return 0.0
    handed_over = max(e.operation.get("simulation", 0.0), e.blocked.share)
    return max(0.0, handed_over - e.blocked.simulated)


def wait_together(e: Evidence) -> str:
    """What to do about a simulator that waits in the main process."""
    many = more_environments(e, AT_ONCE)
    return f"{many}, so that they wait at the same time: a simulator that waits needs no core"


def wait_together_gain(e: Evidence) -> float:
    """Share saved if so many environments wait at the same time."""
    return e.cell.get(("simulation", "wait"), 0.0) * (1 - 1 / AT_ONCE)


def overlap_gain(e: Evidence) -> float:
    """Overlap hides the wait in the other work, or that in the wait: the shorter of the two disappears."""
    wait = e.layer.get("wait", 0.0)
    return min(wait, 1.0 - wait)
