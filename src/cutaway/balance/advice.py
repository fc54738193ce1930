"""Explain, predict, advise: from demands and a machine to sentences with numbers. Returns lines of text; prints nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from cutaway.balance import bounds as operational
from cutaway.balance.curve import Curve
from cutaway.balance.demands import Demands
from cutaway.balance.machine import Machine
from cutaway.balance.simulation import Prediction, predict
from cutaway.balance.sweep import Row

RULE_OF_THUMB = 1.0  # CPU threads for each SM, as the study recommends
NEAR = 0.95  # of the asymptote


@dataclass(frozen=True)
class Elasticity:
    """What one change buys, in percent of throughput."""

    change: str
    percent: float


def elasticities(demands: Demands, machine: Machine, actors: int) -> list[Elasticity]:
    """Small changes and what the simulation says they buy, best first."""
    base = predict(demands, machine, actors, draws=0).steps_per_s
    wider = dataclasses.replace(
        machine, threads=machine.threads + 1, cores=machine.cores + (machine.cores == machine.threads)
    )
    changes = [
        ("one more CPU thread", demands, wider, actors),
        ("one more actor", demands, machine, actors + 1),
        ("an environment 10 % faster", operational.faster(demands, "env_step", 1.1), machine, actors),
        ("inference 10 % faster", operational.faster(demands, "inference", 1.1), machine, actors),
    ]
    if demands.steps_per_train:
        changes.append(
            ("training 10 % faster", operational.faster(demands, "training", 1.1), machine, actors)
        )
    found = [
        Elasticity(what, 100 * (predict(d, m, n, draws=0).steps_per_s / base - 1))
        for what, d, m, n in changes
    ]
    return sorted(found, key=lambda e: -e.percent)


def explain(demands: Demands, machine: Machine, actors: int) -> list[str]:
    """Bounds, utilisations, what binds, what would help, and the CPU/GPU ratio."""
    expected = predict(demands, machine, actors)
    limits = operational.bounds(demands, machine, actors)
    used = operational.utilisations(demands, machine, actors, expected.steps_per_s)
    lines = [
        f"{actors} actors on {machine.name}: {expected.steps_per_s:,.0f} steps/s expected, bound by {limits[0].resource}",
        "",
        "resource    at most steps/s   used   because",
    ]
    lines += [
        f"{b.resource:11} {_number(b.steps_per_s):>15}   {used[b.resource]:4.0%}   {b.because}"
        for b in limits
    ]
    lines += ["", "what would buy how much"]
    lines += [f"  {e.change:28} {e.percent:+5.1f} %" for e in elasticities(demands, machine, actors)]
    return [*lines, "", *ratio(demands, machine, actors)]


def ratio(demands: Demands, machine: Machine, actors: int) -> list[str]:
    """The CPU/GPU ratio of the machine, and the one this workload wants."""
    wanted = operational.wanted_ratio(demands, machine, actors)
    if machine.ratio is None:
        return ["CPU/GPU ratio: this machine has no GPU that the model knows of."]
    line = f"CPU/GPU ratio (CPU threads / SMs): {machine.ratio:.2f} here, rule of thumb {RULE_OF_THUMB:.0f}"
    if wanted is None:
        return [line + "; this run shows no device time to say what the workload wants."]
    return [line + f", this workload wants {wanted:.2f}."]


def _number(value: float) -> str:
    return "unlimited" if value == float("inf") else f"{value:,.0f}"


def held_out(demands: Demands, machine: Machine, rows: Sequence[Row]) -> list[tuple[Row, Prediction]]:
    """Predictions at the swept points that were not used to measure the demands."""
    return [
        (row, predict(demands, _with_cpus(machine, row.cpus), row.actors))
        for row in rows
        if row.actors is not None and row.steps_per_s > 0 and row.actors not in demands.measured_at
    ]


def _with_cpus(machine: Machine, cpus: int | None) -> Machine:
    if cpus is None or cpus >= machine.threads:
        return machine
    return dataclasses.replace(machine, threads=cpus, cores=min(machine.cores, cpus))


def error_line(pairs: Sequence[tuple[Row, Prediction]]) -> str:
    """The model's error on points it has not seen."""
    if not pairs:
        return "Error: unknown, there is no swept point that was not used for measuring."
    errors = [abs(p.steps_per_s / row.steps_per_s - 1) for row, p in pairs]
    points = ", ".join(f"{row.actors} actors {p.steps_per_s / row.steps_per_s - 1:+.1%}" for row, p in pairs)
    return f"Error on {len(pairs)} held-out points: {sum(errors) / len(errors):.1%} mean ({points})."


@dataclass(frozen=True)
class Advice:
    """The knobs, with what they rest on."""

    actors: int
    steps_per_s: float
    asymptote: float
    lines: tuple[str, ...]


def advise(demands: Demands, machine: Machine, current: int, most: int = 1024) -> Advice:
    """How many actors, which ratio, what to buy next."""
    curve = [predict(demands, machine, n, draws=0) for n in _ladder(most)]
    asymptote = max(p.steps_per_s for p in curve)
    best = next(p for p in curve if p.steps_per_s >= NEAR * asymptote)
    now = predict(demands, machine, current, draws=0)
    lines = [
        f"Run {best.actors} actors: {best.steps_per_s:,.0f} steps/s, {best.steps_per_s / now.steps_per_s - 1:+.0%} "
        f"against {current} now; more than that buys less than {1 - NEAR:.0%}.",
        f"At that point {best.cpu_busy:.1f} of {machine.threads} CPU threads are busy and the device {best.device_busy:.0%}.",
        *ratio(demands, machine, best.actors),
        *_energy(demands, machine, curve),
    ]
    buys = [e for e in elasticities(demands, machine, best.actors) if e.change != "one more actor"]
    lines.append(
        f"Next: {buys[0].change} would buy {buys[0].percent:+.1f} %, {buys[1].change} {buys[1].percent:+.1f} %."
    )
    return Advice(best.actors, best.steps_per_s, asymptote, tuple(lines))


def _ladder(most: int) -> list[int]:
    steps: list[int] = []
    n = 1
    while n < most:
        steps.append(n)
        n = max(n + 1, int(n * 1.25))
    return [*steps, most]


def watts(machine: Machine, at: Prediction) -> float | None:
    """Power at a predicted point, idle floor plus the busy share of the dynamic part; None without figures for the machine."""
    figures = (machine.cpu_idle_w, machine.cpu_busy_w, machine.gpu_idle_w, machine.gpu_busy_w)
    if machine.cpu_idle_w is None or machine.cpu_busy_w is None:
        return None
    total = machine.cpu_idle_w + (machine.cpu_busy_w - machine.cpu_idle_w) * min(
        1.0, at.cpu_busy / machine.threads
    )
    if machine.gpus and None not in figures:
        assert machine.gpu_idle_w is not None
        assert machine.gpu_busy_w is not None
        total += machine.gpus * machine.gpu_idle_w + (machine.gpu_busy_w - machine.gpu_idle_w) * min(
            1.0, at.device_busy
        )
    return total


def _energy(demands: Demands, machine: Machine, curve: Sequence[Prediction]) -> list[str]:
    found = [(p, w) for p in curve if (w := watts(machine, p)) is not None]
    if not found:
        return ["Energy: unavailable, the machine file has no watts and no meter was there."]
    best, power = max(found, key=lambda item: item[0].steps_per_s / item[1])
    joules = 1e6 * power / best.steps_per_s
    return [
        f"Best steps per joule at {best.actors} actors: {best.steps_per_s / power:,.1f} steps/J, "
        f"{joules:,.0f} J for a million steps ({power:.0f} W, from the machine file)."
    ]


def advise_from_curve(curve: Curve, current: float, most: int = 1024) -> list[str]:
    """The same from throughput points alone: less is known, and it says so."""
    asymptote = curve(most) if curve.asymptote == float("inf") else min(curve.asymptote, curve(most))
    wanted = next(n for n in _ladder(most) if curve(n) >= NEAR * asymptote)
    low, high = curve.interval(wanted)
    lines = [
        f"About {wanted} actors: {curve(wanted):,.0f} steps/s ({low:,.0f} … {high:,.0f}), "
        f"{curve(wanted) / curve(current) - 1:+.0%} against {current:g}.",
        "From throughput points only: a recorded run would tell which resource binds.",
    ]
    return [*lines, f"Warning: {curve.one_sided}."] if curve.one_sided else lines
