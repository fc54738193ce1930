"""RL-Scope's findings, and some of our own, as predicates over the runs: each holds, does not hold, or cannot be told."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

HOLDS, FAILS, OPEN, NO_GPU = (
    "holds",
    "does not hold",
    "cannot be told",
    "cannot be told without a GPU",
)
TIME, SHARE, COUNT = "times of several runs", "shares within runs", "counts"
"""What a finding rests on. Counts survive a busy machine, shares nearly; times of several runs need a quiet one."""
UPDATE, LEARN = ("backpropagation",), ("inference", "backpropagation")
TF = ("tf-eager", "tf-function", "tf-graph")
SEEN_BY_RL_SCOPE = ("Pong", "Walker2d", "Ant", "Hopper", "HalfCheetah")


class Value(NamedTuple):
    """A number with its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        known = (
            f"{self.low:.2f} to {self.high:.2f}"
            if self.low == self.low
            else "no interval"
        )
        return f"{self.value:.2f} ({known})"

    @classmethod
    def around(cls, value: float, half: float) -> Value:
        """Bounds are NaN, and nothing is judged, where the spread is not known."""
        return cls(value, value - half, value + half)


@dataclass(frozen=True)
class Finding:
    """What was claimed, what RL-Scope saw, what we see, and what that rests on."""

    claim: str
    published: str
    ours: str
    verdict: str
    rests_on: str


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
            if (not wanted or cell["operation"] in wanted)
            and layer in ("", cell["layer"])
        ]
        value = sum(c.value for c in cells)
        return Value.around(value, math.hypot(*(c.high - c.value for c in cells)))

    def crossings(self) -> float:
        """Transitions from Python into the backend for each step."""
        crossed = ((t["from"], t["to"], t["count"]) for t in self.group["transitions"])
        return float(
            sum(
                count
                for origin, to, count in crossed
                if (origin, to) == ("python", "backend")
            )
        )

    def simulation(self) -> Value:
        """The share of simulation."""
        return share(self.time(("simulation",)), self.total)

    def glue(self) -> Value:
        """Python's share of simulation."""
        return share(self.time(("simulation",), "python"), self.time(("simulation",)))


Bars = dict[str, Bar]
Figures = dict[str, Bars]
Judged = tuple[str, str]


def bars(compared: dict[str, Any]) -> Bars:
    """The groups of one figure by name."""
    return {group["name"]: Bar(group) for group in compared["groups"]}


def _value(estimate: dict[str, float | None]) -> Value:
    value = estimate["value"] or 0.0
    low, high = estimate["low"], estimate["high"]
    return Value(
        value, math.nan if low is None else low, math.nan if high is None else high
    )


def over(a: Value, b: Value) -> Value:
    """a / b with its interval."""
    if not b.value:
        return Value(math.nan, math.nan, math.nan)
    value = a.value / b.value
    relative = math.hypot(
        (a.high - a.value) / a.value if a.value else 0.0, (b.high - b.value) / b.value
    )
    return Value.around(value, value * relative)


def share(part: Value, whole: Value) -> Value:
    """part / whole, where the one is in the other: between 0 and 1."""
    found = over(part, whole)
    return found._replace(low=_clip(found.low), high=_clip(found.high))


def _clip(value: float) -> float:
    return value if value != value else min(max(value, 0.0), 1.0)


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


def findings(figures: Figures, devices: Sequence[Device] = ()) -> list[Finding]:
    """All that the recorded cells allow to judge; `devices` are the OpenCL devices of the runs with sixteen workers."""
    out = []
    for claim, published, rests_on, judge in CLAIMS:
        try:
            ours, verdict = judge(figures)
        except KeyError as missing:
            ours, verdict = f"{missing} was not recorded", OPEN
        out.append(Finding(claim, published, ours, verdict, rests_on))
    out.insert(PUBLISHED, _sparse(devices))
    return out


def _ratio(
    figure: str,
    a: str,
    b: str,
    limit: float = 1.0,
    what: Iterable[str] = (),
    layer: str = "",
) -> Callable[[Figures], Judged]:
    """Whether a takes more than `limit` times as long as b, in some operations and perhaps one layer."""

    def judge(figures: Figures) -> Judged:
        found = over(*(figures[figure][name].time(what, layer) for name in (a, b)))
        return f"{a} / {b}: {found}", above(found, limit)

    return judge


def _transitions(figure: str) -> Callable[[Figures], Judged]:
    """Of the three ways to run TensorFlow, the slowest crosses most often."""

    def judge(figures: Figures) -> Judged:
        mine = [figures[figure][name] for name in TF]
        seen = ", ".join(
            f"{name} {bar.crossings():.0f} → {bar.total.value / 1e6:.1f} ms"
            for name, bar in zip(TF, mine, strict=True)
        )
        slowest = max(mine, key=lambda bar: bar.total.value)
        return seen, HOLDS if slowest.crossings() == max(
            bar.crossings() for bar in mine
        ) else FAILS

    return judge


def _python(figures: Figures) -> Judged:
    left = over(
        *(
            figures["backends-td3"][name].time(LEARN, "python")
            for name in ("tf-function", "tf-eager")
        )
    )
    gone = Value(1 - left.value, 1 - left.high, 1 - left.low)
    return f"removed from inference and update: {gone}", above(gone, 0.5)


def _close(figures: Figures) -> Judged:
    found = over(
        *(figures["backends-td3"][name].total for name in ("tf-function", "tf-graph"))
    )
    return f"tf-function / tf-graph: {found}", between(found, 0.8, 1.2)


def _best_graph(figures: Figures) -> Judged:
    mine = figures["backends-td3"]
    best = min(("tf-function", "tf-graph"), key=lambda name: mine[name].total.value)
    return _ratio("backends-td3", "torch", best)(figures)


def _on_policy(figures: Figures) -> Judged:
    mine = figures["algorithms"]
    on = min(
        (mine[name].simulation() for name in ("A2C", "PPO")), key=lambda v: v.value
    )
    off = max(
        (mine[name].simulation() for name in ("DDPG", "TD3", "SAC")),
        key=lambda v: v.value,
    )
    found = over(on, off)
    return f"least on-policy / most off-policy share: {found}", above(found, 3.5)


def _simulators(figures: Figures) -> Judged:
    """Of the simulators that RL-Scope has, too; a camera stands for its photorealistic one."""
    shares = {
        name: figures["simulators"][name].simulation()
        for name in (*SEEN_BY_RL_SCOPE, "Camera")
    }
    low, high = (
        min(shares, key=lambda n: shares[n].value),
        max(shares, key=lambda n: shares[n].value),
    )
    seen = f"{shares[low].value:.0%} ({low}) to {shares[high].value:.0%} ({high})"
    return seen, above(shares[low], 0.38)


def _glue(simulator: str) -> Callable[[Figures], Judged]:
    def judge(figures: Figures) -> Judged:
        found = figures["simulators"][simulator].glue()
        return f"Python's share of simulation: {found}", above(found, 0.5)

    return judge


def _sparse(devices: Sequence[Device]) -> Finding:
    claim, published = (
        "nvidia-smi shows at least twice what 16 workers use of the GPU",
        "100 % shown; 20 s of 5,000 s used",
    )
    if not devices:
        return Finding(claim, published, "no GPU here", NO_GPU, SHARE)
    least, most = min(d.nvidia_smi for d in devices), max(d.busy for d in devices)
    seen = (
        f"on OpenCL: shown {least:.0%}, busy {most:.1%}; a worker used {max(d.process_s for d in devices):.1f} s "
        f"of {min(d.seconds for d in devices):.0f} s"
    )
    verdict = f"{HOLDS if least > 2 * most else FAILS} on OpenCL; {NO_GPU}"
    return Finding(claim, published, seen, verdict, SHARE)


def _gpu(figures: Figures) -> Judged:
    return "no GPU here", NO_GPU


CLAIMS: tuple[tuple[str, str, str, Callable[[Figures], Judged]], ...] = (
    ("eager is slower than graph (TD3)", "4.8×", TIME, _ratio("backends-td3", "tf-eager", "tf-graph")),
    ("eager is slower than autograph (TD3)", "4.5×", TIME, _ratio("backends-td3", "tf-eager", "tf-function")),
    ("eager is slower than autograph (DDPG)", "4.5×", TIME, _ratio("backends-ddpg", "tf-eager", "tf-function")),
    ("TF-Agents: eager is slower than autograph (TD3)", "1.9–4.9×", TIME,
     _ratio("backends-td3", "tf-agents eager", "tf-agents function")),
    ("the slowest way to run TensorFlow has most transitions (TD3)", "yes", COUNT, _transitions("backends-td3")),
    ("the slowest way to run TensorFlow has most transitions (DDPG)", "yes", COUNT, _transitions("backends-ddpg")),
    ("autograph removes most Python time from inference and update", "yes", TIME, _python),
    ("PyTorch eager is faster than TensorFlow eager (TD3)", "2.3×", TIME, _ratio("backends-td3", "tf-eager", "torch")),
    ("autograph and graph are close (within 20 %)", "8–17 %", TIME, _close),
    ("PyTorch eager is slower than the best graph", "2×", TIME, _best_graph),
    ("an over-abstracted implementation costs 1.5× or more in the update (DDPG, Stable-Baselines3)", "3.7×", TIME,
     _ratio("backends-ddpg", "sb3", "torch", 1.5, UPDATE)),
    ("the same for TorchRL", "3.7×", TIME, _ratio("backends-ddpg", "torchrl", "torch", 1.5, UPDATE)),
    ("the same for TF-Agents, autograph", "3.7×", TIME,
     _ratio("backends-ddpg", "tf-agents function", "tf-function", 1.5, UPDATE)),
    ("on-policy is 3.5× or more as simulation-bound as off-policy", "≥ 3.5×", SHARE, _on_policy),
    ("simulation takes 38 % or more with every simulator", "38–99 %", SHARE, _simulators),
    ("more than half of simulation is Python glue (PyBullet)", "yes", SHARE, _glue("PyBullet")),
    ("GPU time is a small share; CUDA API time exceeds kernel time", "3–14 %", SHARE, _gpu),
    ("more than half of simulation is Python glue (Walker2d of gymnasium)", "ours", SHARE, _glue("Walker2d")),
    ("more than half of simulation is Python glue (EnvPool)", "ours", SHARE, _glue("EnvPool Pong")),
    ("EnvPool simulates Pong faster than eight ALE in Python", "ours", TIME,
     _ratio("simulators", "Pong", "EnvPool Pong", what=("simulation",))),
    ("torch.compile is faster than eager", "ours", TIME, _ratio("backends-td3", "torch", "torch-compile")),
    ("torch.compile removes most Python time (more than halves it)", "ours", TIME,
     _ratio("backends-td3", "torch", "torch-compile", 2.0, LEARN, "python")),
    ("JAX is faster than PyTorch eager", "ours", TIME, _ratio("backends-td3", "torch", "jax")),
    ("scanning over updates is faster than one call an update (JAX)", "ours", TIME, _ratio("backends-td3", "jax", "jax-scan")),
    ("one inference server is faster than 16 networks, on CPUs", "ours", TIME, _ratio("scale", "own networks", "one server")),
)  # fmt: skip
PUBLISHED = next(i for i, claim in enumerate(CLAIMS) if claim[1] == "ours")
"""How many of them are RL-Scope's: its last one, about sparse device work, comes after these."""
