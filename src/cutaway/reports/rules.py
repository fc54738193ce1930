"""The rules of the verdict: one table, read from the top; the first whose condition holds speaks.

A rule looks only at `Evidence`. `gain` is the share of the main process's time that would disappear under the
assumption `given`, or None when nothing honest can be said; Amdahl's law turns it into a speed-up. It is called an
estimate, or "at most" where `at_most` says that it is a bound: a wait that ends saves its own time and no more.
Nothing is estimated where other programs used the cores. docs/verdicts.md explains the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from cutaway.vocabulary import ACCELERATOR_API, OPERATIONS

from . import advice, counters
from .evidence import Evidence
from .sentences import (
    counted,
    how_busy_the_gpu_is,
    inside_calls,
    share_of,
    waits_for_workers,
)
from .text import NONE, duration, percent

ENOUGH_SECONDS = 1.0
ENOUGH_UNITS = {"iteration": 3, "step": 30, "run": 0}
MANY_UNITS = {"iteration": 5, "step": 300}  # so many make up for less than a second
LEAST_SECONDS = 0.1
CROWDED = 1.5  # so many threads for each core want to run; a few more than cores do little harm
ENDED = "if that wait ended"
COVERED = 0.8  # with less of the time named, the verdict says so


@dataclass(frozen=True)
class Rule:
    """One row: a name, when it holds (in words, for the reference, and as code), the evidence in a sentence, what to try, what
    that could save."""

    name: str
    label: str
    when: str
    holds: Callable[[Evidence], bool]
    because: Callable[[Evidence], str]
    advice: Callable[[Evidence], str]
    gain: Callable[[Evidence], float | None] = lambda e: None
    given: str | Callable[[Evidence], str] = "if that took half the time"
    at_most: bool = False  # the gain is a bound, not a guess
    look: str = "callsite"  # the view of `cutaway show --by` that tells more


def _thin(e: Evidence) -> bool:
    many = e.unit in MANY_UNITS and e.units >= MANY_UNITS[e.unit]
    short = e.seconds < ENOUGH_SECONDS and not many
    return short or e.seconds < LEAST_SECONDS or e.units < ENOUGH_UNITS.get(e.unit, 0)


def _counters_speak(e: Evidence) -> bool:
    return counters.speak(e) and (counters.replayed(e) or not _thin(e))


def _jitted(e: Evidence) -> float:
    """Share of compiled functions that hold a whole training."""
    return e.operation.get("training program", 0.0)


def _operation_bound(e: Evidence, name: str) -> bool:
    return e.top == name and e.top_share >= 0.4


def _waits_for(e: Evidence, operation: str) -> bool:
    return (
        e.blocked is not None
        and e.blocked.share >= 0.4
        and e.blocked.busy_with == operation
        and not e.blocked.idle
    )


def _operation_rule(name: str, what: str | Callable[[Evidence], str]) -> Rule:
    def to_try(e: Evidence) -> str:
        return advice.with_your_line(
            e, name, what if isinstance(what, str) else what(e)
        )

    return Rule(
        name=f"{name}-bound",
        label=f"{name.upper()}-BOUND",
        when=f"`{name}` is the largest operation, with 40 % or more",
        holds=lambda e: _operation_bound(e, name),
        because=lambda e: share_of(e, name),
        advice=to_try,
        gain=lambda e: e.operation.get(name, 0.0) / 2,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        name="hang",
        label="STUCK",
        when="the main process was killed inside one call that had taken more than 3 s and a quarter of its life",
        holds=lambda e: bool(e.hang),
        because=lambda e: f"{e.hang}.",
        advice=lambda e: (
            "find out what that call waits for; everything before it is recorded"
        ),
    ),
    # Where each kernel ran alone to read its counters, no time is that of the training: only counters speak.
    Rule(
        name="far-from-peak",
        label="GPU FAR FROM ITS PEAK",
        when=(
            "hardware counters were recorded, the device is busy half of the time or more, and kernels reach less than "
            "30 % of its peak in compute and in memory bandwidth"
        ),
        holds=lambda e: _counters_speak(e) and counters.far_from_peak(e),
        because=lambda e: (
            f"{counters.busy(e)} its kernels reach {counters.peaks(e)}{counters.small(e)}."
        ),
        advice=lambda e: (
            "give each kernel more work: larger batches, more environments; fuse small kernels with torch.compile, or launch them "
            "together as a CUDA graph"
        ),
        look="counter",
    ),
    Rule(
        name="bandwidth-bound",
        label="DEVICE MEMORY-BOUND",
        when=(
            "hardware counters were recorded, and kernels use 60 % or more of the bandwidth of device memory, and more "
            "of it than of compute"
        ),
        holds=lambda e: _counters_speak(e) and counters.near_peak(e) == "dram",
        because=lambda e: f"{counters.busy(e)} its kernels reach {counters.peaks(e)}.",
        advice=lambda e: (
            "move fewer bytes: bfloat16, and torch.compile to fuse elementwise kernels"
        ),
        look="counter",
    ),
    Rule(
        name="compute-bound",
        label="DEVICE COMPUTE-BOUND",
        when="hardware counters were recorded, and kernels reach 60 % or more of the peak in compute",
        holds=lambda e: _counters_speak(e) and counters.near_peak(e) == "compute",
        because=lambda e: f"{counters.busy(e)} its kernels reach {counters.peaks(e)}.",
        advice=lambda e: (
            "compute less: a smaller network, lower precision on the tensor cores, fewer passes over the batch"
        ),
        look="counter",
    ),
    Rule(
        name="counters-only",
        label="NO VERDICT",
        when="hardware counters were read by running each kernel alone, so that times are not those of the training",
        holds=lambda e: counters.replayed(e),
        because=lambda e: (
            "kernels ran alone, several times each, to read their counters: no time here is that of the training."
        ),
        advice=lambda e: (
            "record the training itself with `cutaway run`; see the counters with --by counter"
        ),
        look="counter",
    ),
    Rule(
        name="thin-failed",
        label="NO VERDICT",
        when="the program failed before any operation began",
        holds=lambda e: (
            bool(e.failure)
            and not any(e.operation.get(name) for name in e.operation if name)
        ),
        because=lambda e: (
            "the program ended before it stepped an environment or ran a network."
        ),
        advice=advice.record_again,
        look="line",
    ),
    Rule(
        name="thin-time",
        label="NO VERDICT",
        when="fewer than 3 iterations (or 30 steps), less than 1 s with fewer than 5 (or 300 steps), or less than 0.1 s",
        holds=_thin,
        because=lambda e: (
            f"only {duration(e.seconds * 1e9)}{counted(e)} of steady state recorded: too little for a verdict."
        ),
        advice=advice.record_again,
        look="operation",
    ),
    Rule(
        name="one-jitted-call",
        label="ONE JITTED CALL",
        when="40 % or more is a compiled JAX function that holds a whole training (20 % or more in a program without iterations)",
        holds=lambda e: (
            "jax" in e.libraries
            and (_jitted(e) >= 0.4 or (e.unit == "run" and e.one_call[1] >= 0.2))
        ),
        because=lambda e: (
            f"{percent(_jitted(e) or e.one_call[1])} of {e.per} is one compiled call"
            f"{'' if _jitted(e) else f' ({e.one_call[0]})'}: its parts run inside XLA, where Cutaway cannot see them."
        ),
        advice=lambda e: (
            "put jax.named_scope around the parts, record with jax.profiler.trace(DIR) and open it with `cutaway import`; or "
            "jit one update and call it in a Python loop"
        ),
        look="line",
    ),
    Rule(
        name="thin-operations",
        label="NO VERDICT",
        when="70 % or more is outside any operation and not waiting, or only device work was recorded",
        holds=lambda e: not e.operation or (e.unnamed >= 0.7 and e.waits < 0.5),
        because=lambda e: (
            f"{percent(e.unnamed)} of the time is outside any operation."
            if e.unnamed
            else "no time on the CPU was recorded."
        ),
        advice=advice.name_it,
        look="line",
    ),
    # Many idle workers crowd the cores at each hand-over: without them there is no crowd.
    Rule(
        name="workers-cost",
        label="WORKERS COST MORE THAN THEY DO",
        when="20 % or more waits for workers, and what all of them simulate together takes less than half of the time of that",
        holds=lambda e: (
            e.blocked is not None
            and e.blocked.share >= 0.2
            and e.blocked.busy_with in ("simulation", "")
            and 0 < e.blocked.simulated < e.blocked.share / 2
            and advice.one_process_gain(e) >= 0.1
        ),
        because=lambda e: (
            f"{waits_for_workers(e)[:-1]}, but all of them together simulate for {percent(e.blocked.simulated)} of that time: the rest is "
            f"the hand-over."
            if e.blocked
            else ""
        ),
        advice=advice.in_one_process,
        gain=advice.one_process_gain,
        given="if stepping takes the main process as long as it takes the workers",
        look="wait",
    ),
    Rule(
        name="cpu-oversubscription",
        label="CPU OVERSUBSCRIBED",
        when="1.5 threads or more for each core want to run, they wait 15 % of that time or more, and no other program is to blame",
        holds=lambda e: (
            e.runqueue >= 0.15 and e.runnable >= CROWDED * e.cores and not e.shared
        ),
        because=lambda e: (
            f"{e.threads} threads in {e.processes} process{'es' * (e.processes != 1)} share {e.cores} cores: "
            f"{e.runnable:.1f} want to run at once, and they wait {percent(e.runqueue)} of that time for a core."
        ),
        advice=advice.fewer_at_once,
        gain=lambda e: None,  # neither the wait for a core nor idle cores foretold it
        look="process",
    ),
    Rule(
        name="transfer-bound",
        label="TRANSFER-BOUND",
        when="a device copies memory 30 % of the time or more",
        holds=lambda e: e.copies >= 0.3,
        because=lambda e: (
            f"{percent(e.copies)} of the time the device copies memory{how_busy_the_gpu_is(e)}."
        ),
        advice=lambda e: (
            "keep observations on the device, pin host memory, copy once per batch"
        ),
        gain=lambda e: e.copies / 2,
        look="kernel",
    ),
    Rule(
        name="accelerator-bound",
        label="ACCELERATOR-BOUND",
        when="a device is busy 70 % of the time, or the main process is blocked half of the time while it is busy",
        holds=lambda e: (e.device_busy or 0.0) >= 0.7 or e.gpu_bound >= 0.5,
        because=lambda e: (
            f"{percent(e.gpu_bound)} of {e.per} is blocked while the device computes{how_busy_the_gpu_is(e)}."
        ),
        advice=lambda e: (
            f"make the kernels of {e.largest_in('wait') or NONE} cheaper: lower precision, fused kernels, compile"
        ),
        gain=lambda e: e.gpu_bound / 2 or None,
        look="kernel",
    ),
    Rule(
        name="launch-bound",
        label="LAUNCH-BOUND",
        when="30 % or more in accelerator API calls",
        holds=lambda e: e.layer.get(ACCELERATOR_API, 0.0) >= 0.3,
        because=lambda e: (
            f"{percent(e.layer[ACCELERATOR_API])} of {e.per} is spent in accelerator API calls, most of it "
            f"in {e.largest_in(ACCELERATOR_API) or NONE}{how_busy_the_gpu_is(e)}."
        ),
        advice=lambda e: (
            "launch less: larger batches, CUDA graphs, torch.compile(mode='reduce-overhead')"
        ),
        gain=lambda e: e.layer[ACCELERATOR_API] / 2,
        look="transition",
    ),
    Rule(
        name="straggler",
        label="STRAGGLER",
        when="30 % or more waits for workers, and one of them computes 1.5 times the median in both halves of the run",
        holds=lambda e: (
            e.blocked is not None
            and e.blocked.share >= 0.3
            and e.blocked.slowest_ratio >= 1.5
        ),
        because=lambda e: (
            f"{waits_for_workers(e)[:-1]}; {e.blocked.slowest} computes {e.blocked.slowest_ratio:.1f} times the median."
            if e.blocked
            else ""
        ),
        advice=lambda e: (
            f"even out their work: give {e.blocked.slowest if e.blocked else 'the slowest'} less, or step asynchronously"
        ),
        gain=lambda e: advice.ended_wait(e.blocked.share) if e.blocked else None,
        given=ENDED,
        at_most=True,
        look="wait",
    ),
    Rule(
        name="simulation-bound-workers",
        label="SIMULATION-BOUND",
        when="40 % or more waits for processes that are busy with simulation for a third of that time or more",
        holds=lambda e: _waits_for(e, "simulation"),
        because=lambda e: waits_for_workers(e)[:-1] + how_busy_the_gpu_is(e) + ".",
        advice=advice.more_workers,
        gain=lambda e: (
            advice.ended_wait(e.blocked.share) if e.idle_cores and e.blocked else None
        ),
        given=ENDED,
        at_most=True,
        look="wait",
    ),
    Rule(
        name="inference-bound-server",
        label="INFERENCE-BOUND",
        when="40 % or more waits for processes that are busy with inference for a third of that time or more",
        holds=lambda e: _waits_for(e, "inference"),
        because=lambda e: waits_for_workers(e),
        advice=advice.faster_answers,
        gain=lambda e: advice.ended_wait(e.blocked.share) if e.blocked else None,
        given=ENDED,
        at_most=True,
        look="wait",
    ),
    Rule(
        name="gil",
        label="GIL",
        when="25 % or more waits for the interpreter lock (GIL), which another thread of the process holds; of the time with a core, "
        "where other programs took it",
        holds=lambda e: e.gil >= 0.25 * (1 - e.queued if e.shared else 1),
        because=lambda e: (
            f"{percent(e.gil)} of {e.per} waits for the GIL{inside_calls(e)}: another thread of the process runs Python meanwhile."
        ),
        advice=lambda e: (
            "move the other thread's Python work into a process of its own (multiprocessing)"
        ),
        gain=lambda e: advice.ended_wait(e.gil),
        given=ENDED,
        at_most=True,
        look="wait",
    ),
    Rule(
        name="waiting",
        label="WAITING",
        when="half of the time is spent waiting",
        holds=lambda e: e.layer.get("wait", 0.0) >= 0.5,
        because=lambda e: (
            waits_for_workers(e)
            if e.blocked and e.blocked.share >= 0.3
            else f"{percent(e.layer['wait'])} of {e.per} is blocked, most of it in {e.largest_in('wait') or NONE}"
            + (f", for {e.waits_for}." if e.waits_for else ".")
        ),
        advice=lambda e: (
            "overlap the wait with other work: ask for the next batch before you use this one"
        ),
        gain=advice.overlap_gain,
        given="if the two overlap fully",
        look="wait",
    ),
    Rule(
        name="thin-shared",
        label="NO VERDICT",
        when="other programs took the cores, and half of the time that they left is spent waiting",
        holds=lambda e: e.waits >= 0.5,
        because=lambda e: (
            f"{percent(e.layer['wait'])} of {e.per} waits, and {percent(e.queued)} wants a core that others have: what the run does "
            f"on a machine of its own cannot be told."
        ),
        advice=lambda e: "record again on a quiet machine",
        look="wait",
    ),
    Rule(
        name="python-glue",
        label="PYTHON-BOUND",
        when="60 % or more is Python",
        holds=lambda e: e.layer.get("python", 0.0) >= 0.6,
        because=lambda e: (
            f"{percent(e.layer['python'])} of {e.per} is Python code, most of it in {e.largest_in('python') or NONE}"
            f"{how_busy_the_gpu_is(e)}."
        ),
        advice=advice.less_python,
        gain=lambda e: e.layer["python"] / 2,
        look="line",
    ),
    Rule(
        name="native-bound",
        label="NATIVE-BOUND",
        when="60 % or more is NumPy, SciPy or OpenCV",
        holds=lambda e: e.layer.get("native", 0.0) >= 0.6,
        because=lambda e: (
            f"{percent(e.layer['native'])} of {e.per} is native library code (NumPy, SciPy, OpenCV), most of it in "
            f"{e.largest_in('native') or NONE}{how_busy_the_gpu_is(e)}."
        ),
        advice=lambda e: advice.hot_line(
            e, e.largest_in("native"), "use float32, smaller arrays or fewer copies"
        ),
        gain=lambda e: e.layer["native"] / 2,
    ),
    Rule(
        name="simulation-bound",
        label="SIMULATION-BOUND",
        when="`simulation` is the largest operation, with 40 % or more",
        holds=lambda e: _operation_bound(e, "simulation"),
        because=lambda e: share_of(e, "simulation"),
        advice=advice.parallel_simulation,
        gain=advice.parallel_gain,
        given=advice.parallel_given,
    ),
    _operation_rule("inference", advice.larger_inference),
    _operation_rule("backpropagation", advice.cheaper_update),
    _operation_rule(
        "replay", "store arrays, not objects, and sample whole batches at once"
    ),
    _operation_rule("sync", "send weights less often, or in one flat buffer"),
    _operation_rule("evaluation", "evaluate less often, or in another process"),
    _operation_rule("checkpoint", "save less often, or in a thread"),
    _operation_rule(
        "compile",
        "keep shapes and dtypes the same, so that nothing is compiled twice; use a cache",
    ),
    _operation_rule(
        "search", "evaluate leaves in batches, or search several trees at once"
    ),
    _operation_rule(
        "generation",
        "generate larger batches, or with an inference engine (use_vllm=True in TRL)",
    ),
    _operation_rule(
        "reward", "compute rewards in batches, or while the next batch is generated"
    ),
    _operation_rule(
        "reference",
        "compute reference log-probabilities in larger batches, or cache them",
    ),
    Rule(
        name="operation-bound",
        label="BOUND BY ONE OPERATION",
        when="an operation of your own is the largest, with 40 % or more",
        holds=lambda e: e.top_share >= 0.4 and e.top not in OPERATIONS,
        because=lambda e: share_of(e, e.top),
        advice=lambda e: f"start with your {e.lines.get(e.top) or 'code in ' + e.top}",
        gain=lambda e: e.top_share / 2,
        look="line",
    ),
    Rule(
        name="unnamed",
        label="PARTLY NAMED",
        when="none of the above, and more than 20 % of the time has no name",
        holds=lambda e: e.unnamed > 1 - COVERED,
        because=lambda e: (
            f"{percent(e.unnamed)} of {e.per} is outside any operation; the largest named part is "
            f"{e.top or NONE} with {percent(e.top_share)}."
        ),
        advice=advice.name_it,
        look="line",
    ),
    Rule(
        name="balanced",
        label="BALANCED",
        when="none of the above",
        holds=lambda e: True,
        because=lambda e: (
            f"no operation dominates {e.per}; the largest is {e.top or NONE} with {percent(e.top_share)}."
        ),
        advice=advice.largest_operation,
        look="line",
    ),
)
