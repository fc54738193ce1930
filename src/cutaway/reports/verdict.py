"""The verdict: one table of rules, read from the top; the first whose condition holds speaks.

A rule looks only at `Evidence`. `gain` is the share of the main process's time that would disappear under the
assumption `given`, or None when nothing honest can be said; Amdahl's law turns it into an expected speed-up,
always called an estimate. docs/verdicts.md is the same table in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .evidence import Evidence
from .model import BUILT_IN, NONE
from .words import duration, plural

ENOUGH_SECONDS = 1.0
ENOUGH_UNITS = 3
MANY_UNITS = 5  # so many make up for less than a second
LEAST_SECONDS = 0.1


@dataclass(frozen=True)
class Rule:
    """One row: a name, when it holds, the evidence in a sentence, what to try, what that could save."""

    name: str
    label: str
    holds: Callable[[Evidence], bool]
    because: Callable[[Evidence], str]
    advice: Callable[[Evidence], str]
    gain: Callable[[Evidence], float | None]
    given: str = "if that took half the time"
    look: str = "callsite"  # the view of `cutaway show --by` that tells more


@dataclass(frozen=True)
class Verdict:
    """What a rule said about a run. `certain` is False when the evidence was too thin for a verdict."""

    rule: str
    label: str
    because: str
    advice: str
    speedup: float | None
    given: str
    then: str
    look: str
    certain: bool = True

    @property
    def expected(self) -> str:
        """The expected gain in words, or nothing."""
        if self.speedup is None or self.speedup < 1.01:
            return ""
        return f"estimate: {(self.speedup - 1) * 100:+.0f} % throughput {self.given}"


def percent(share: float) -> str:
    """A share in words.

    >>> percent(0.583), percent(0.004), percent(0.0001)
    ('58 %', '0.4 %', '0 %')
    """
    return f"{share * 100:.1f} %" if 0.0005 <= share < 0.0095 else f"{share * 100:.0f} %"


def _fewer_at_once(e: Evidence) -> str:
    """Fewer processes where they alone are too many, else fewer threads in each."""
    each = max(1, e.cores // max(1, e.processes))
    pools = f"OMP_NUM_THREADS={each} and torch.set_num_threads({each})"
    if e.processes > e.cores:
        return f"use {e.cores} processes instead of {e.processes}, with several environments in each, and {pools}"
    return f"cap each process's thread pool, e.g. {pools}"


def amdahl(removed: float) -> float:
    """Speed-up when `removed` of the time disappears.

    >>> amdahl(0.5)
    2.0
    """
    return 1.0 / max(0.01, 1.0 - min(removed, 0.99))


def _spread(e: Evidence, share: float, workers: int) -> float:
    """Share saved when the work of `workers` processes is spread over the idle cores as well."""
    return share * (1 - workers / (workers + e.idle_cores))


def _top(e: Evidence) -> tuple[str, float]:
    named = {name: share for name, share in e.operation.items() if name}
    return max(named.items(), key=lambda kv: kv[1]) if named else ("", 0.0)


def _main_part(e: Evidence, layer: str) -> str:
    parts = {operation: share for (operation, kind), share in e.cell.items() if kind == layer}
    operation = max(parts, key=lambda k: parts[k]) if parts else ""
    return operation or NONE


def _thin(e: Evidence) -> bool:
    counted = e.unit != "run"
    short = e.seconds < ENOUGH_SECONDS and not (counted and e.units >= MANY_UNITS)
    return short or e.seconds < LEAST_SECONDS or (counted and e.units < ENOUGH_UNITS)


def _operation_bound(e: Evidence, name: str) -> bool:
    return _top(e)[0] == name and _top(e)[1] >= 0.4


def _waits_for(e: Evidence, operation: str) -> bool:
    return e.blocked is not None and e.blocked.share >= 0.4 and e.blocked.busy_with == operation


def _worker_text(e: Evidence) -> str:
    b = e.blocked
    assert b is not None
    who = f"{b.count} {b.role} processes" if b.count > 1 else f"the {b.role} process"
    return f"{percent(b.share)} of {e.per} waits for {who}, busy with {b.busy_with or 'other work'}."


def _operation_text(e: Evidence, name: str) -> str:
    share = e.operation[name]
    layers = {layer: s for (operation, layer), s in e.cell.items() if operation == name}
    layer = max(layers, key=lambda k: layers[k])
    return f"{percent(share)} of {e.per} is {name}, {percent(layers[layer] / share)} of that {_where(layer)}{_gpu_text(e)}."


def _where(layer: str) -> str:
    """A layer in words."""
    named = {
        "wait": "waiting",
        "python": "in Python",
        "simulator": "in the simulator",
        "backend": "in the ML backend",
    }
    return named.get(layer, f"in the {layer.replace('_', ' ')}")


def _gpu_text(e: Evidence) -> str:
    if e.device_busy is None:
        return ""
    smi = f" (nvidia-smi would say {percent(e.nvidia_smi)})" if e.nvidia_smi is not None else ""
    return f"; the GPU is busy {percent(e.device_busy)} of the time{smi}"


def _halved(name: str) -> Callable[[Evidence], float | None]:
    return lambda e: e.operation.get(name, 0.0) / 2


def _operation_rule(name: str, advice: str, gain: Callable[[Evidence], float | None]) -> Rule:
    return Rule(
        name=f"{name}-bound",
        label=f"{name.upper()}-BOUND",
        holds=lambda e: _operation_bound(e, name),
        because=lambda e: _operation_text(e, name),
        advice=lambda e: advice,
        gain=gain,
    )


RULES: tuple[Rule, ...] = (
    Rule(
        name="thin-time",
        label="NO VERDICT",
        holds=lambda e: _thin(e),
        because=lambda e: (
            f"only {e.seconds:.2g} s{' and ' + plural(e.units, e.unit) if e.unit in ('iteration', 'step') else ''} of steady state "
            f"recorded: too thin for a verdict."
        ),
        advice=lambda e: "record longer, and mark the training loop with cutaway.iteration()",
        gain=lambda e: None,
        look="operation",
    ),
    Rule(
        name="thin-operations",
        label="NO VERDICT",
        holds=lambda e: e.operation.get("", 1.0 - _top(e)[1]) >= 0.7 and e.layer.get("wait", 0.0) < 0.5,
        because=lambda e: (
            f"{percent(e.operation[''])} of the time is outside any operation."
            if e.operation.get("")
            else "no time of the program itself was recorded."
        ),
        advice=lambda e: 'name the parts of the loop with cutaway.operation("simulation") and so on',
        gain=lambda e: None,
    ),
    Rule(
        name="machine-shared",
        label="MACHINE SHARED",
        holds=lambda e: e.runqueue >= 0.15 and e.foreign >= max(0.5, 0.25 * e.cores),
        because=lambda e: (
            f"other programs used {e.foreign:.1f} of {e.cores} cores; threads of this run waited "
            f"{percent(e.runqueue)} of their time for a core."
        ),
        advice=lambda e: "run again on a quiet machine before changing anything",
        gain=lambda e: None,
        look="process",
    ),
    Rule(
        name="cpu-oversubscription",
        label="CPU OVERSUBSCRIBED",
        holds=lambda e: e.runqueue >= 0.15 and e.runnable > e.cores,
        because=lambda e: (
            f"{e.threads} threads in {e.processes} process{'es' * (e.processes != 1)} share {e.cores} cores: "
            f"{e.runnable:.1f} want to run at once and wait {percent(e.runqueue)} of that time for a core."
        ),
        advice=_fewer_at_once,
        gain=lambda e: e.runqueue / 2,
        given="if threads waited half as long for a core",
        look="process",
    ),
    Rule(
        name="transfer-bound",
        label="TRANSFER-BOUND",
        holds=lambda e: e.copies >= 0.3,
        because=lambda e: f"{percent(e.copies)} of the time the device copies memory{_gpu_text(e)}.",
        advice=lambda e: "keep observations on the device, pin host memory, copy once for each batch",
        gain=lambda e: e.copies / 2,
        look="kernel",
    ),
    Rule(
        name="accelerator-bound",
        label="ACCELERATOR-BOUND",
        holds=lambda e: (e.device_busy or 0.0) >= 0.7 or e.gpu_bound >= 0.5,
        because=lambda e: (
            f"{percent(e.gpu_bound)} of {e.per} is blocked while the device computes{_gpu_text(e)}."
        ),
        advice=lambda e: (
            f"make the kernels of {_main_part(e, 'wait')} cheaper: lower precision, fused kernels, compile"
        ),
        gain=lambda e: e.gpu_bound / 2 or None,
        look="kernel",
    ),
    Rule(
        name="launch-bound",
        label="LAUNCH-BOUND",
        holds=lambda e: e.layer.get("accelerator_api", 0.0) >= 0.3,
        because=lambda e: (
            f"{percent(e.layer['accelerator_api'])} of {e.per} is spent in accelerator API calls, most of it "
            f"in {_main_part(e, 'accelerator_api')}{_gpu_text(e)}."
        ),
        advice=lambda e: "launch less: larger batches, CUDA graphs, torch.compile(mode='reduce-overhead')",
        gain=lambda e: e.layer["accelerator_api"] / 2,
        look="transition",
    ),
    Rule(
        name="straggler",
        label="STRAGGLER",
        holds=lambda e: e.blocked is not None and e.blocked.share >= 0.3 and e.blocked.slowest_ratio >= 1.5,
        because=lambda e: (
            f"{_worker_text(e)[:-1]}; {e.blocked.slowest} works {e.blocked.slowest_ratio:.1f} times the median."
            if e.blocked
            else ""
        ),
        advice=lambda e: "step the workers asynchronously, or even out their work",
        gain=lambda e: e.blocked.share * (1 - 1 / e.blocked.slowest_ratio) if e.blocked else None,
        given="if all were as fast as the median",
        look="wait",
    ),
    Rule(
        name="simulation-bound-workers",
        label="SIMULATION-BOUND",
        holds=lambda e: _waits_for(e, "simulation"),
        because=lambda e: _worker_text(e)[:-1] + _gpu_text(e) + ".",
        advice=lambda e: (
            f"add environment workers on the {plural(e.idle_cores, 'idle core')}"
            if e.idle_cores
            else "every core is in use: a faster or natively vectorised simulator, or overlap it with training"
        ),
        gain=lambda e: _spread(e, e.blocked.share, e.blocked.count) if e.idle_cores and e.blocked else None,
        given="if they scale",
        look="wait",
    ),
    Rule(
        name="inference-bound-server",
        label="INFERENCE-BOUND",
        holds=lambda e: _waits_for(e, "inference"),
        because=_worker_text,
        advice=lambda e: "answer larger batches of requests at once, or use more inference processes",
        gain=lambda e: e.blocked.share / 2 if e.blocked else None,
        look="wait",
    ),
    Rule(
        name="waiting",
        label="WAITING",
        holds=lambda e: e.layer.get("wait", 0.0) >= 0.5,
        because=lambda e: (
            _worker_text(e)
            if e.blocked and e.blocked.share >= 0.3
            else f"{percent(e.layer['wait'])} of {e.per} is blocked, most of it in {_main_part(e, 'wait')}."
        ),
        advice=lambda e: (
            "overlap the wait with other work: asynchronous stepping, prefetching, double buffering"
        ),
        gain=lambda e: e.layer["wait"] / 2,
        look="wait",
    ),
    Rule(
        name="python-glue",
        label="PYTHON-BOUND",
        holds=lambda e: e.layer.get("python", 0.0) >= 0.6,
        because=lambda e: (
            f"{percent(e.layer['python'])} of {e.per} is Python glue, most of it in {_main_part(e, 'python')}"
            f"{_gpu_text(e)}."
        ),
        advice=lambda e: "remove or vectorise wrappers, batch the calls, or compile the hot loop",
        gain=lambda e: e.layer["python"] / 2,
    ),
    Rule(
        name="simulation-bound",
        label="SIMULATION-BOUND",
        holds=lambda e: _operation_bound(e, "simulation"),
        because=lambda e: _operation_text(e, "simulation"),
        advice=lambda e: (
            f"step environments in parallel processes: {e.idle_cores} of {e.cores} cores are idle"
            if e.idle_cores
            else "use a faster or natively vectorised simulator: every core is in use"
        ),
        gain=_halved("simulation"),
    ),
    _operation_rule(
        "inference",
        "act on larger batches of observations: more environments for each policy call",
        _halved("inference"),
    ),
    _operation_rule(
        "backpropagation",
        "fewer, larger minibatches; a fused optimizer; compile the update",
        _halved("backpropagation"),
    ),
    _operation_rule(
        "replay",
        "store arrays, not objects; sample whole batches at once; prefetch in a thread",
        _halved("replay"),
    ),
    _operation_rule("sync", "send weights less often, or in one flat buffer", _halved("sync")),
    _operation_rule("evaluation", "evaluate less often, or in another process", _halved("evaluation")),
    _operation_rule("checkpoint", "save less often, or in a thread", _halved("checkpoint")),
    Rule(
        name="operation-bound",
        label="BOUND BY ONE OPERATION",
        holds=lambda e: _top(e)[1] >= 0.4 and _top(e)[0] not in BUILT_IN,
        because=lambda e: _operation_text(e, _top(e)[0]),
        advice=lambda e: f"start with {e.hottest}" if e.hottest else f"look into {_top(e)[0]}",
        gain=lambda e: _top(e)[1] / 2,
    ),
    Rule(
        name="balanced",
        label="BALANCED",
        holds=lambda e: True,
        because=lambda e: (
            f"no operation has 40 % of {e.per}; the largest is {_top(e)[0] or NONE} with {percent(_top(e)[1])}."
        ),
        advice=lambda e: f"start with {e.hottest}" if e.hottest else "record on more cores or longer",
        gain=lambda e: None,
    ),
)


def judge(e: Evidence) -> Verdict:
    """The first rule that holds, in words."""
    rule = next(rule for rule in RULES if rule.holds(e))
    gain = rule.gain(e)
    return Verdict(
        rule=rule.name,
        label=rule.label,
        because=_sentence(rule.because(e)),
        advice=rule.advice(e),
        speedup=None if not gain else amdahl(gain),
        given=rule.given,
        then="" if rule.name.startswith("thin") else _then(e, rule.name),
        look=rule.look,
        certain=not rule.name.startswith("thin"),
    )


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _then(e: Evidence, rule: str) -> str:
    """What comes next: the largest cell the verdict has not named."""
    named = rule.split("-bound")[0]
    rest = {
        (operation, layer): share
        for (operation, layer), share in e.cell.items()
        if operation not in ("", named)
        and layer != "wait"
        and not (rule == "python-glue" and layer == "python")
    }
    if not rest:
        return ""
    (operation, layer), share = max(rest.items(), key=lambda kv: kv[1])
    if share < 0.03:
        return ""
    where = f" (hottest: {e.hottest})" if e.hottest and layer == "python" else ""
    return f"{duration(share * e.unit_ms * 1e6)} of {e.per} is {operation} {_where(layer)}{where}."
