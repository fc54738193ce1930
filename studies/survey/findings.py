"""RL-Scope's findings, and some of our own, as predicates over the runs: each holds, does not hold, or cannot be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

HOLDS, FAILS, OPEN, NO_GPU = "holds", "does not hold", "cannot be told", "cannot be told without a GPU"


class Value(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        known = f"{self.low:.2f} to {self.high:.2f}" if self.low == self.low else "no interval"
        return f"{self.value:.2f} ({known})"

    @classmethod
    def around(cls, value: float, half: float) -> Value:
        """Bounds are NaN, and nothing is judged, where the spread is not known."""
        return cls(value, value - half, value + half)


@dataclass(frozen=True)
class Finding:
    """What was claimed, what RL-Scope saw, what we see."""

    claim: str
    published: str
    ours: str
    verdict: str


class Bar:
    """One group of `cutaway compare --json`."""

    def __init__(self, group: dict[str, Any]) -> None:
        self.group = group
        self.total = _value(group["total_ns"])

    def time(self, operations: Iterable[str] = (), layer: str = "") -> Value:
        """Time for each step in some operations (all, if none are named), perhaps in one layer."""
        wanted = set(operations)
        cells = [
            _value(cell["ns"])
            for cell in self.group["cells"]
            if (not wanted or cell["operation"] in wanted) and layer in ("", cell["layer"])
        ]
        value = sum(c.value for c in cells)
        return Value.around(value, math.hypot(*(c.high - c.value for c in cells)))

    def crossings(self) -> float:
        """Transitions from Python into the backend for each step."""
        return float(
            sum(
                t["count"] for t in self.group["transitions"] if (t["from"], t["to"]) == ("python", "backend")
            )
        )


Bars = dict[str, Bar]


def bars(compared: dict[str, Any]) -> Bars:
    """The groups of one figure by name."""
    return {group["name"]: Bar(group) for group in compared["groups"]}


def _value(estimate: dict[str, float | None]) -> Value:
    value = estimate["value"] or 0.0
    low, high = estimate["low"], estimate["high"]
    return Value(value, math.nan if low is None else low, math.nan if high is None else high)


def over(a: Value, b: Value) -> Value:
    """a / b with its interval."""
    if not b.value:
        return Value(math.nan, math.nan, math.nan)
    value = a.value / b.value
    relative = math.hypot((a.high - a.value) / a.value if a.value else 0.0, (b.high - b.value) / b.value)
    return Value.around(value, value * relative)


def above(value: Value, limit: float) -> str:
    """Whether a value is above a limit, as far as its interval tells."""
    return HOLDS if value.low > limit else FAILS if value.high < limit else OPEN


def between(value: Value, low: float, high: float) -> str:
    if low <= value.low and value.high <= high:
        return HOLDS
    return FAILS if value.high < low or value.low > high else OPEN


class Device(NamedTuple):
    """A device in one run: the share of time it really worked, what nvidia-smi would have shown, and the same for one process."""

    busy: float
    nvidia_smi: float
    process_s: float
    seconds: float


def findings(figures: dict[str, Bars], devices: Sequence[Device] = ()) -> list[Finding]:
    """All that the recorded cells allow to judge; `devices` are the OpenCL devices of the runs with sixteen workers."""
    out = [_sparse(devices)]
    for claim, published, judge in CLAIMS:
        try:
            ours, verdict = judge(figures)
        except KeyError as missing:
            ours, verdict = f"{missing} was not recorded", OPEN
        out.append(Finding(claim, published, ours, verdict))
    return out


Judged = tuple[str, str]
UPDATE = ("backpropagation",)


def _ratio(
    figure: str, a: str, b: str, limit: float = 1.0, what: Iterable[str] = ()
) -> Callable[[dict[str, Bars]], Judged]:
    def judge(figures: dict[str, Bars]) -> Judged:
        found = over(figures[figure][a].time(what), figures[figure][b].time(what))
        return f"{a} / {b}: {found}", above(found, limit)

    return judge


def _transitions(figures: dict[str, Bars]) -> Judged:
    """Of the three ways to run TensorFlow: the more crossings, the slower."""
    mine = [figures["backends-td3"][name] for name in ("tf-eager", "tf-function", "tf-graph")]
    told = ", ".join(f"{bar.crossings():.0f} → {bar.total.value / 1e6:.2f} ms" for bar in mine)
    slowest = max(mine, key=lambda bar: bar.total.value)
    return f"transitions → time a step: {told}", HOLDS if slowest.crossings() == max(
        b.crossings() for b in mine
    ) else FAILS


def _python(figures: dict[str, Bars]) -> Judged:
    both = [figures["backends-td3"][name].time(layer="python") for name in ("tf-function", "tf-eager")]
    left = over(*both)
    return f"Python time that is left: {left}", above(Value(1 - left.value, 1 - left.high, 1 - left.low), 0.5)


def _close(figures: dict[str, Bars]) -> Judged:
    found = over(*(figures["backends-td3"][name].total for name in ("tf-function", "tf-graph")))
    return f"tf-function / tf-graph: {found}", between(found, 0.8, 1.2)


def _share(bar: Bar) -> Value:
    return over(bar.time(("simulation",)), bar.total)


def _on_policy(figures: dict[str, Bars]) -> Judged:
    mine = figures["algorithms"]
    on = min((_share(mine[name]) for name in ("A2C", "PPO")), key=lambda v: v.value)
    off = max((_share(mine[name]) for name in ("DDPG", "TD3", "SAC")), key=lambda v: v.value)
    found = over(on, off)
    return f"least on-policy / most off-policy share: {found}", above(found, 3.5)


def _simulators(figures: dict[str, Bars]) -> Judged:
    """Of the simulators that RL-Scope has, too."""
    shares = {
        name: _share(figures["simulators"][name])
        for name in ("Pong", "Walker2d", "Ant", "Hopper", "HalfCheetah")
    }
    low, high = min(shares, key=lambda n: shares[n].value), max(shares, key=lambda n: shares[n].value)
    told = f"{shares[low].value:.0%} ({low}) to {shares[high].value:.0%} ({high})"
    return told, above(shares[low], 0.38)


def _glue(figures: dict[str, Bars]) -> Judged:
    bar = figures["simulators"]["PyBullet"]
    found = over(bar.time(("simulation",), "python"), bar.time(("simulation",)))
    return f"Python's share of simulation: {found}", above(found, 0.5)


def _sparse(devices: Sequence[Device]) -> Finding:
    claim = "nvidia-smi shows 100 % while each of 16 workers hardly uses the GPU"
    if not devices:
        return Finding(claim, "20 s of 5,000 s", "no GPU here", NO_GPU)
    least, most = min(d.nvidia_smi for d in devices), max(d.busy for d in devices)
    told = (
        f"on OpenCL: shown {least:.0%}, busy {most:.0%}; a worker used {max(d.process_s for d in devices):.1f} s "
        f"of {min(d.seconds for d in devices):.0f} s"
    )
    return Finding(
        claim, "20 s of 5,000 s", told, f"{HOLDS if least > 2 * most else FAILS} on OpenCL; {NO_GPU}"
    )


def _gpu(figures: dict[str, Bars]) -> Judged:
    return "no GPU here", NO_GPU


CLAIMS: tuple[tuple[str, str, Callable[[dict[str, Bars]], Judged]], ...] = (
    ("eager is slower than graph", "1.9–4.9×", _ratio("backends-td3", "tf-eager", "tf-graph")),
    ("eager is slower than autograph", "1.9–4.9×", _ratio("backends-td3", "tf-eager", "tf-function")),
    ("time follows the transitions into the backend", "yes", _transitions),
    ("autograph removes most Python time", "yes", _python),
    ("PyTorch eager is faster than TensorFlow eager (TD3)", "2.3×", _ratio("backends-td3", "tf-eager", "torch")),
    ("autograph and graph are close", "8–17 %", _close),
    ("PyTorch eager is slower than the best graph", "2×", _ratio("backends-td3", "torch", "tf-graph")),
    ("an over-abstracted implementation costs a multiple in the update (DDPG)", "3.7×",
     _ratio("backends-ddpg", "sb3", "torch", 1.5, UPDATE)),
    ("on-policy is more simulation-bound than off-policy", "≥ 3.5×", _on_policy),
    ("simulation's share by simulator", "38–99 %", _simulators),
    ("more than half of simulation is Python glue (PyBullet)", "yes", _glue),
    ("GPU time is a small share; CUDA API time exceeds kernel time", "3–14 %", _gpu),
    ("torch.compile is faster than eager", "ours", _ratio("backends-td3", "torch", "torch-compile")),
    ("JAX is faster than PyTorch eager", "ours", _ratio("backends-td3", "torch", "jax")),
    ("scanning over updates is faster than one call an update (JAX)", "ours", _ratio("backends-td3", "jax", "jax-scan")),
    ("one inference server is faster than 16 networks, on CPUs", "ours", _ratio("scale", "own networks", "one server")),
)  # fmt: skip
