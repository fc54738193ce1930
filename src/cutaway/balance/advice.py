"""Explain, predict, advise: from what was measured and a machine to an answer, as values for scripts and as lines for people.

`machine` is the one to answer for, if it is not that of the measurements; `counts` are the numbers of actors to answer for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from cutaway.balance import model
from cutaway.balance.demands import LINES, Demands, Line
from cutaway.balance.grid import Row
from cutaway.balance.machine import Machine
from cutaway.balance.model import Prediction
from cutaway.balance.sources import HeldOut, Source
from cutaway.errors import CutawayError

Answer = tuple[Any, list[str]]  # for scripts, and for people
NEAR = 0.95  # of the asymptote
MOST_ERROR = 0.25  # of a curve, at a point that it has not seen
LADDER = [1]  # numbers of actors to try
while LADDER[-1] < 1024:
    LADDER.append(min(1024, max(LADDER[-1] + 1, int(LADDER[-1] * 1.25))))


def elasticities(demands: Demands, machine: Machine, actors: int) -> dict[str, float]:
    """Small changes and what the simulation says they buy, in percent of throughput, best first."""
    cores = machine.cores + (machine.cores == machine.threads)
    wider = dataclasses.replace(machine, threads=machine.threads + 1, cores=cores)

    def faster(*services: str) -> Demands:
        return demands.times(**dict.fromkeys(services, 1 / 1.1))

    changes = {
        "one more CPU thread": (demands, wider, actors),
        "one more actor": (demands, machine, actors + 1),
        "an environment 10 % faster": (faster("env_step"), machine, actors),
        "inference 10 % faster": (faster(*LINES), machine, actors),
    }
    if demands.steps_per_train:
        changes["training 10 % faster"] = (
            faster("train_host", "train_device"),
            machine,
            actors,
        )
    base = model.predict(demands, machine, actors, draws=0).steps_per_s
    rates = {
        what: model.predict(*to, draws=0).steps_per_s for what, to in changes.items()
    }
    bought = {what: 100 * (rate / base - 1) for what, rate in rates.items()}
    return dict(sorted(bought.items(), key=lambda item: -item[1]))


def explain(source: Source, machine: Machine | None, counts: Sequence[int]) -> Answer:
    """Bounds, utilisations, what binds, what would help, the CPU/GPU ratio, and the demands all that rests on."""
    if not source.seen:
        raise CutawayError(f"`explain` needs a recorded run: {source.why_not}.")
    demands, machine, texts, points = (
        source.demands(),
        machine or source.machine,
        [],
        [],
    )
    for actors in counts or (max(demands.measured_at),):
        expected, limits = (
            model.predict(demands, machine, actors),
            model.bounds(demands, machine, actors),
        )
        rate, binding = expected.steps_per_s, limits[0].resource
        used = {b.resource: min(1.0, rate / b.steps_per_s) for b in limits}
        gains = elasticities(demands, machine, actors)
        point = {
            "actors": actors,
            "steps_per_s": rate,
            "binding": binding,
            "utilisation": used,
            "bounds": {b.resource: b.steps_per_s for b in limits},
            "elasticities": gains,
            "ratio": machine.ratio,
            "wanted_ratio": model.wanted_ratio(demands, machine, actors),
        }
        points.append(point)
        interval = f"({expected.low:,.0f} … {expected.high:,.0f})"
        lines = [
            f"{actors} actors on {machine.name}: {rate:,.0f} steps/s expected {interval}",
            f"the tightest bound is {binding}, {used[binding]:.0%} used",
            "",
            "resource  at most steps/s   used  because",
        ]
        for b in limits:
            most = (
                "unlimited"
                if b.steps_per_s == float("inf")
                else f"{b.steps_per_s:,.0f}"
            )
            lines.append(
                f"{b.resource:9} {most:>14}  {used[b.resource]:5.0%}  {b.because}"
            )
        lines += ["", "what would gain how much"]
        lines += [f"  {what:28} {percent:+5.1f} %" for what, percent in gains.items()]
        texts.append(
            "\n".join(
                [*lines, "", *_ratio(demands, machine, actors), "", *_measured(demands)]
            )
        )
    return {"demands": dataclasses.asdict(demands), "points": points}, [
        "\n\n".join(texts)
    ]


def _measured(d: Demands) -> list[str]:
    def us(seconds: float) -> str:
        return (
            f"{1e3 * seconds:,.1f} ms"
            if seconds >= 1e-2
            else f"{1e6 * seconds:,.0f} µs"
        )

    def line(line: Line) -> str:
        return f"{1e6 * line.a:,.0f} + {1e6 * line.b:,.1f}·n µs"

    at = ", ".join(map(str, d.measured_at))
    every = f"every {d.steps_per_train:,.0f} steps"
    training = f"{us(d.train_host.mean)} CPU, {us(d.train_device.mean)} device, {every}"
    rule = "max(envs of an actor, all // 2)" if d.batch == "seed" else str(d.batch)
    wait = "until full" if d.timeout is None else f"at most {us(d.timeout)}"
    return [
        f"measured at {at} actors" if at else "given",
        f"  environment step       {us(d.env_step.mean)} CPU",
        f"  rest of the actor      {us(d.actor_overhead.mean)} CPU a request",
        f"  inference, CPU         {line(d.host)} before the device,",
        f"                         {line(d.reply)} to answer, {line(d.after)} after",
        f"  inference, device      {line(d.device)}",
        f"  wake-ups, no CPU       {us(d.latency)} a round trip",
        *([f"  training               {training}"] if d.steps_per_train else []),
        f"  batch                  {rule}, waits {wait}",
        *(f"  note: {n}" for n in d.notes),
    ]


def _ratio(demands: Demands, machine: Machine, actors: int) -> list[str]:
    """The CPU/GPU ratio of the machine, the one this workload wants, and the study's rule of thumb."""
    wanted, threads = (
        f(demands, machine, actors) for f in (model.wanted_ratio, model.wanted_threads)
    )
    if machine.ratio is None:
        busy = f"One such device keeps {threads or 0:.1f} CPU threads busy; this machine has {machine.threads}."
        unknown = "CPU/GPU ratio: unknown, because no GPU was recorded."
        return [unknown] if threads is None else [unknown, busy]
    here = f"CPU/GPU ratio (CPU threads / SMs): {machine.ratio:.2f} here, "
    if wanted is None:
        unknown = "what this workload needs is unknown: the run has no device time."
        return [here + "rule of thumb 1;", unknown]
    return [here + f"this workload needs {wanted:.2f},", "the rule of thumb is 1."]


def predict(source: Source, machine: Machine | None, counts: Sequence[int]) -> Answer:
    """Throughput at other numbers of actors, and the model's error on points it has not seen."""
    if not source.seen:
        return _predict_from_curve(source, counts)
    demands, other, machine = source.demands(), machine, machine or source.machine
    lines = [
        f"on {machine.name} ({machine.threads} CPU threads)",
        "actors   steps/s  95 % interval      CPU threads  device  batch",
    ]
    points = [
        model.predict(demands, machine, n)
        for n in counts or (2 * max(demands.measured_at),)
    ]
    for p in points:
        rate = f"{p.steps_per_s:9,.0f}  {f'{p.low:,.0f} … {p.high:,.0f}':18}"
        lines.append(
            f"{p.actors:6} {rate} {p.cpu_busy:11.1f} {p.device_busy:7.0%} {p.mean_batch:6.1f}"
        )
    lines.append("")
    if other and other.cpu_speed == other.gpu_speed == 1.0:
        lines.append(
            "assumes cores and device as fast as here (set cpu_speed and gpu_speed in its file)"
        )
    elif other:
        device = f"its device {other.gpu_speed:g} times"
        lines.append(
            f"assumes its cores are {other.cpu_speed:g} times as fast, {device}"
        )
    held = source.held_out()
    lines += [*_errors(held), *(f"note: {n}" for n in demands.notes)]
    errors = [
        {"actors": h.row.actors, "cpus": h.row.cpus, "measured": h.row.steps_per_s,
         "predicted": h.predicted.steps_per_s, "error": h.error} for h in held
    ]  # fmt: skip
    return {
        "points": [dataclasses.asdict(p) for p in points],
        "held_out": errors,
    }, lines


def _errors(found: Sequence[HeldOut]) -> list[str]:
    if not found:
        return [
            "error: unknown; measure at least three numbers of actors, or hold some out with --from"
        ]
    lines = [
        "held out: actors  CPUs   measured  predicted   error  others  measured at"
    ]
    for h in found:
        point = f"{h.row.actors:6} {'–' if h.row.cpus is None else h.row.cpus:>5}"
        rates = f"{h.row.steps_per_s:10,.0f} {h.predicted.steps_per_s:10,.0f} {h.error:+7.1%}"
        at = ",".join(map(str, h.measured_at)) if len(h.measured_at) < 5 else "the rest"
        lines.append(f"          {point} {rates} {h.row.foreign_cores:7.1f}  {at}")
    mean = sum(abs(h.error) for h in found) / len(found)
    return [*lines, f"mean error on {len(found)} held-out points: {mean:.1%}"]


def advise(source: Source, machine: Machine | None, counts: Sequence[int]) -> Answer:
    """How many actors, which ratio, what to buy next."""
    if not source.seen:
        if len(source.points()) >= 2:
            return curve_advice(source)
        raise CutawayError(
            "Advice needs at least two measured numbers of actors, or a recorded run."
        )
    demands, rows, machine = (
        source.demands(),
        [] if machine else source.rows,
        machine or source.machine,
    )
    curve = [model.predict(demands, machine, n, draws=0) for n in LADDER]
    asymptote = max(p.steps_per_s for p in curve)
    best = next(p for p in curve if p.steps_per_s >= NEAR * asymptote)
    current = counts[0] if counts else max(demands.measured_at)
    gain = (
        best.steps_per_s / model.predict(demands, machine, current, draws=0).steps_per_s
        - 1
    )
    binding = model.bounds(demands, machine, best.actors)[0]
    bought = elasticities(demands, machine, best.actors)
    first, second = [item for item in bought.items() if item[0] != "one more actor"][:2]
    lines = [
        f"Run {best.actors} actors: {best.steps_per_s:,.0f} steps/s, {gain:+.0%} against {current}.",
        f"No number of actors brings more than {asymptote:,.0f}; {binding.resource} is the limit then:",
        f"{binding.because}.",
        f"{best.cpu_busy:.1f} of {machine.threads} CPU threads are busy there, and the device {best.device_busy:.0%}.",
        *_ratio(demands, machine, best.actors),
        *_energy(machine, curve, rows),
        f"Next: {first[0]} gains {first[1]:+.1f} %, {second[0]} {second[1]:+.1f} %.",
    ]
    if held := source.held_out():
        lines.append(_errors(held)[-1].capitalize() + ".")
    return lines, lines


def _energy(
    machine: Machine, curve: Sequence[Prediction], rows: Sequence[Row]
) -> list[str]:
    """Where steps cost the fewest joules: as metered, else from the watts of the machine file."""
    metered = [(r.steps_per_j, r.actors) for r in rows if r.steps_per_j is not None]
    if metered:
        most, actors = max(metered, key=lambda item: item[0])
        joules = f"({1e6 / most:,.0f} J a million)"
        return [
            f"Best steps per joule measured: {most:,.2f} at {actors} actors {joules}."
        ]
    known = [
        (p, w)
        for p in curve
        if (w := machine.watts(p.cpu_busy, p.device_busy)) is not None
    ]
    if not known:
        return [
            "Energy: unavailable; no meter was found, and the machine file has no watts."
        ]
    best, power = max(known, key=lambda item: item[0].steps_per_s / item[1])
    rates = f"{best.steps_per_s / power:,.1f} steps/J, {1e6 * power / best.steps_per_s:,.0f} J a million"
    found = f"Best steps per joule at {best.actors} actors: {rates}"
    return [found, f"({power:.0f} W, from the machine file, not metered)."]


def _predict_from_curve(source: Source, counts: Sequence[int]) -> Answer:
    curve, largest = source.curve(), max(source.points())
    lines = ["actors   steps/s  95 % interval       (from throughput points only)"]
    points = []
    for n in counts or (2 * largest,):
        low, high = curve.interval(n)
        points.append({"actors": n, "steps_per_s": curve(n), "low": low, "high": high})
        lines.append(f"{n:6} {curve(n):9,.0f}  {low:,.0f} … {high:,.0f}")
    errors = source.curve_errors()
    lines += [_curve_error(errors), *_doubts(source)]
    return {"points": points, "held_out": errors, "warnings": _doubts(source)}, lines


def _curve_error(errors: Mapping[int, float]) -> str:
    if not errors:
        return "error: unknown; measure at least three numbers of actors, or hold some out with --from"
    mean = sum(map(abs, errors.values())) / len(errors)
    each = ", ".join(f"{error:+.0%} at {actors}" for actors, error in errors.items())
    return f"mean error on {len(errors)} held-out points: {mean:.0%} ({each})"


def _doubts(source: Source) -> list[str]:
    """Why the points may not tell what happens beyond them."""
    curve, errors = source.curve(), source.curve_errors()
    found = [f"Warning: {curve.one_sided}."] if curve.one_sided else []
    if errors and max(map(abs, errors.values())) > MOST_ERROR:
        found.append(
            "Warning: the curve misses points it has not seen, so do not trust it beyond them."
        )
    return found


def advise_from_curve(source: Source) -> list[str]:
    """Advice from throughput points alone, in words; nothing if they are too few."""
    return curve_advice(source)[1] if len(source.points()) >= 2 else []


def curve_advice(source: Source) -> Answer:
    """What was measured comes first: where more actors brought nothing, no curve knows better. Beyond the points there is advice
    only if the curve bends inside them and predicts points it has not seen."""
    points, errors = source.points(), source.curve_errors()
    best = max(points.values())
    enough = next(n for n, rate in points.items() if rate >= NEAR * best)
    found: dict[str, Any] = {"held_out": errors, "largest_measured": max(points)}
    tail = [
        _curve_error(errors).capitalize() + ".",
        "Record the runs to learn which resource binds.",
    ]
    if enough < max(points):
        gain = points[enough] / points[min(points)] - 1
        found |= {"actors": enough, "steps_per_s": points[enough], "measured": True}
        more = f"more than that, up to {max(points)}, brought no more than {best:,.0f}"
        rate = (
            f"{points[enough]:,.0f} steps/s measured, {gain:+.0%} against {min(points)}"
        )
        return found, [f"Use {enough} actors: {rate}; {more}.", *tail]
    curve = source.curve()
    if _doubts(source) or len(points) < 3:
        found |= {"actors": None, "measured": False}
        cannot = f"The points cannot tell how many actors are best: at {max(points)} throughput still grows."
        return found, [cannot, f"Measure more than {max(points)} actors.", *tail]
    reach = [n for n in LADDER if n <= 2 * max(points)]
    wanted = next(n for n in reach if curve(n) >= NEAR * curve(reach[-1]))
    low, high = curve.interval(wanted)
    gain = curve(wanted) / curve(min(points)) - 1
    found |= {
        "actors": wanted,
        "steps_per_s": curve(wanted),
        "low": low,
        "high": high,
        "measured": False,
    }
    rate = f"{curve(wanted):,.0f} steps/s ({low:,.0f} … {high:,.0f}), {gain:+.0%} against {min(points)}"
    return found, [f"About {wanted} actors: {rate}, by throughput points alone.", *tail]
