"""Explain, predict, advise: from what was measured and a machine to an answer, as values for scripts and as lines for people.

`machine` is the one to answer for, if it is not that of the measurements; `counts` are the numbers of actors to answer for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from cutaway.errors import CutawayError
from cutaway.machines.machine import Machine
from cutaway_balance import points
from cutaway_balance.grid import Row
from cutaway_balance.model import Bound, Prediction, Predictor
from cutaway_balance.points import LADDER, NEAR, Answer
from cutaway_balance.sources import HeldOut, Source

_REACH = 16  # times the largest measured number of actors: further a ladder does not go


def explain(source: Source, machine: Machine | None, counts: Sequence[int]) -> Answer:
    """Bounds, utilisations, what binds, what would help, the CPU/GPU ratio, and what all that rests on."""
    known = source.predictor
    if known is None:
        raise CutawayError(f"`explain` needs a recorded run: {source.why_not}.")
    explained = [
        _explained(known, source, machine, actors)
        for actors in counts or (max(known.measured_at),)
    ]
    values = {
        "rests_on": known.rests_on(),
        "points": [point for point, _ in explained],
    }
    return values, ["\n\n".join("\n".join(lines) for _, lines in explained)]


def _explained(
    known: Predictor, source: Source, other: Machine | None, actors: int
) -> Answer:
    machine = other or source.machine
    expected = known.predict(actors, other)
    limits = known.bounds(actors, other)
    gains = known.gains(actors, other)
    rate = expected.steps_per_s
    binding = limits[0].resource
    used = {b.resource: min(1.0, rate / b.steps_per_s) for b in limits}
    point = {
        "actors": actors,
        "steps_per_s": rate,
        "binding": binding,
        "utilisation": used,
        "bounds": {b.resource: b.steps_per_s for b in limits},
        "elasticities": gains,
        "ratio": machine.ratio,
        "wanted_ratio": _wanted_ratio(known, machine, other, actors),
    }
    interval = f"({expected.low:,.0f} … {expected.high:,.0f})"
    lines = [
        f"{actors} actors on {machine.name}: {rate:,.0f} steps/s expected {interval}",
        f"the tightest bound is {binding}, {used[binding]:.0%} used",
        "",
        "resource  at most steps/s   used  because",
        *(_bound(b, used[b.resource]) for b in limits),
        "",
        "what would gain how much",
        *(f"  {what:28} {percent:+5.1f} %" for what, percent in gains.items()),
        "",
        *_ratio(known, machine, other, actors),
        "",
        *known.rests_on(),
    ]
    return point, lines


def _bound(bound: Bound, used: float) -> str:
    most = f"{bound.steps_per_s:,.0f}"
    if bound.steps_per_s == float("inf"):
        most = "unlimited"
    return f"{bound.resource:9} {most:>14}  {used:5.0%}  {bound.because}"


def _wanted_ratio(
    known: Predictor, machine: Machine, other: Machine | None, actors: int
) -> float | None:
    """CPU threads for each SM at which CPU and device are busy alike; None without a device."""
    threads = known.wanted_threads(actors, other)
    if threads is None or not machine.sms or not machine.gpus:
        return None
    return threads / (machine.sms * machine.gpus)


def _ratio(
    known: Predictor, machine: Machine, other: Machine | None, actors: int
) -> list[str]:
    """The CPU/GPU ratio of the machine, the one this workload wants, and the study's rule of thumb."""
    wanted = _wanted_ratio(known, machine, other, actors)
    threads = known.wanted_threads(actors, other)
    if machine.ratio is None:
        busy = f"One such device keeps {threads or 0:.1f} CPU threads busy; this machine has {machine.threads}."
        unknown = "CPU/GPU ratio: unknown, because no GPU was recorded."
        if threads is None:
            return [unknown]
        return [unknown, busy]
    here = f"CPU/GPU ratio (CPU threads / SMs): {machine.ratio:.2f} here, "
    if wanted is None:
        unknown = "what this workload needs is unknown: the run has no device time."
        return [here + "rule of thumb 1;", unknown]
    return [here + f"this workload needs {wanted:.2f},", "the rule of thumb is 1."]


def predict(source: Source, machine: Machine | None, counts: Sequence[int]) -> Answer:
    """Throughput at other numbers of actors, and the error on points that were not used."""
    known = source.predictor
    if known is None:
        return points.predict(source, counts)
    at = machine or source.machine
    found = [known.predict(n, machine) for n in counts or (2 * max(known.measured_at),)]
    lines = [
        f"on {at.name} ({at.threads} CPU threads)",
        "actors   steps/s  95 % interval      CPU threads  device  batch",
        *map(_row, found),
        "",
    ]
    if machine:
        lines.append(_assumed(machine))
    held = source.held_out()
    notes = dict.fromkeys(note for point in found for note in point.notes)
    lines += [*_errors(held), *(f"note: {note}" for note in notes)]
    errors = [
        {
            "actors": h.row.actors,
            "cpus": h.row.cpus,
            "measured": h.row.steps_per_s,
            "predicted": h.predicted.steps_per_s,
            "error": h.error,
        }
        for h in held
    ]
    return {
        "points": [dataclasses.asdict(point) for point in found],
        "held_out": errors,
    }, lines


def _row(p: Prediction) -> str:
    rate = f"{p.steps_per_s:9,.0f}  {f'{p.low:,.0f} … {p.high:,.0f}':18}"
    if p.mean_batch is None:
        batch = f"{'–':>6}"
    else:
        batch = f"{p.mean_batch:6.1f}"
    return f"{p.actors:6} {rate} {p.cpu_busy:11.1f} {p.device_busy:7.0%} {batch}"


def _assumed(machine: Machine) -> str:
    if machine.cpu_speed == machine.gpu_speed == 1.0:
        return "assumes cores and device as fast as here (set cpu_speed and gpu_speed in its file)"
    device = f"its device {machine.gpu_speed:g} times"
    return f"assumes its cores are {machine.cpu_speed:g} times as fast, {device}"


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
        if len(h.measured_at) < 5:
            at = ",".join(map(str, h.measured_at))
        else:
            at = "the rest"
        lines.append(f"          {point} {rates} {h.row.foreign_cores:7.1f}  {at}")
    mean = sum(abs(h.error) for h in found) / len(found)
    return [*lines, f"mean error on {len(found)} held-out points: {mean:.1%}"]


def advise(source: Source, machine: Machine | None, counts: Sequence[int]) -> Answer:
    """How many actors, which ratio, what to buy next."""
    known = source.predictor
    if known is None:
        return points.advise(source)
    at = machine or source.machine
    rows = [] if machine else source.rows
    curve = _ladder(known, machine)
    asymptote = max(p.steps_per_s for p in curve)
    best = next(p for p in curve if p.steps_per_s >= NEAR * asymptote)
    if counts:
        current = counts[0]
    else:
        current = max(known.measured_at)
    now = known.predict(current, machine, sure=False).steps_per_s
    binding = known.bounds(best.actors, machine)[0]
    bought = known.gains(best.actors, machine)
    next_ = [item for item in bought.items() if item[0] != "one more actor"][:2]
    steps = ", ".join(f"{what} gains {percent:+.1f} %" for what, percent in next_)
    lines = [
        f"Run {best.actors} actors: {best.steps_per_s:,.0f} steps/s, {best.steps_per_s / now - 1:+.0%} against {current}.",
        f"More actors bring at most {asymptote:,.0f}; then {binding.resource} is the limit:",
        f"{binding.because}.",
        f"{best.cpu_busy:.1f} of {at.threads} CPU threads are busy there, and the device {best.device_busy:.0%}.",
        *_ratio(known, at, machine, best.actors),
        *_energy(at, curve, rows),
        f"Next: {steps}.",
    ]
    if held := source.held_out():
        lines.append(_errors(held)[-1].capitalize() + ".")
    return lines, lines


def _ladder(known: Predictor, machine: Machine | None) -> list[Prediction]:
    """Predictions for more and more actors, as far as there are any."""
    found: list[Prediction] = []
    for actors in LADDER:
        if actors > _REACH * max(known.measured_at):
            break
        try:
            found.append(known.predict(actors, machine, sure=False))
        except CutawayError:
            if found and actors > max(known.measured_at):
                break
    if not found:
        known.predict(max(known.measured_at), machine)
    return found


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
