"""Why do N workers not give N times? Runs with different numbers of workers, and where the lost part went.

The unit of account is a worker's time for one unit of work (a step, or an iteration of a rank). With N workers, N times the time for
a unit is spent; each worker's time is divided into parts that add up. What the parts grew by since the smallest run is the loss,
so the losses add up to one minus the efficiency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean, median_low

from cutaway.errors import CutawayError

from .digest import Digest, Process
from .text import percent

SERVER = "inference"
HELPERS = ("helper", "launcher", "evaluation", SERVER)
"""Roles of processes that are not workers."""
MAIN = "the main process"
SYNC = "sync"
NOTABLE = 0.02  # a smaller loss is not worth a word
WELL = 0.1  # nor is what is lost together, if it is less


@dataclass(frozen=True)
class Part:
    """One way to lose time: its title, what it means, and what to try."""

    title: str
    label: str
    meaning: str
    advice: str


PARTS = {
    "serial": Part(
        "serial part",
        "SERIAL PART",
        f"workers wait while {MAIN} works",
        f"make the own work of {MAIN} shorter, or overlap it with the workers (asynchronous collection, prefetching)",
    ),
    "slowest": Part(
        "slowest worker",
        "SLOWEST WORKER",
        "one of them has more to do or takes longer, and the others wait for it",
        "even out the work, or do not wait for all (asynchronous workers)",
    ),
    "sync": Part(
        "synchronisation",
        "SYNCHRONISATION",
        "of messages, gradients and locks between processes",
        "synchronise less often or less data: larger batches, one flat buffer, shared memory",
    ),
    "queue": Part(
        "no free core",
        "TOO FEW CORES",
        "workers are ready but wait for a core",
        "use fewer workers or threads, or a machine with more cores",
    ),
    "work": Part(
        "more work each",
        "MORE WORK EACH",
        "each unit takes more calls than with fewer workers",
        "find what each worker repeats: `cutaway diff` of the two runs names the functions",
    ),
    "machine": Part(
        "slower machine",
        "SLOWER MACHINE",
        "the same calls take longer: clock speed, caches, memory bandwidth, hyper-threads",
        "bind workers to cores, use real cores instead of hyper-threads, or touch less memory",
    ),
}


@dataclass(frozen=True)
class Point:
    """One run: its workers, its pace, and the parts of its workers' time, in seconds for each unit of work."""

    name: str
    workers: int
    unit: str
    rate: float  # units a second
    parts: dict[str, float]
    events: float  # recorded calls of a worker for each unit
    server: str = MAIN  # whom workers wait for

    @property
    def cost(self) -> float:
        """Seconds of all workers for one unit."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Scaled:
    """One run beside the smallest one. `losses` are shares of its workers' time and add up to 1 - `efficiency`."""

    point: Point
    speedup: float
    efficiency: float
    losses: dict[str, float]

    @property
    def largest(self) -> str:
        """The part that lost most; empty if nothing notable was lost."""
        if 1 - self.efficiency < WELL:
            return ""
        name = max(self.losses, key=lambda part: self.losses[part])
        if self.losses[name] >= NOTABLE:
            return name
        return ""


def workers_of(digest: Digest) -> list[Process]:
    """The processes that share the work: ranks of the main process's role, else its workers, else itself."""
    main = digest.main
    ranks = [p for p in digest.processes if p.role == main.role and p.layers]
    if main.role == "learner" and len(ranks) > 1:
        return ranks
    workers = [
        p
        for p in digest.processes
        if p.id != main.id and p.role and p.role not in HELPERS and p.layers
    ]
    return workers or [main]


def point(name: str, digest: Digest, unit: str, told: int | None = None) -> Point:
    """What one run says about scaling."""
    workers = workers_of(digest)
    count = told or len(workers)
    units = _units(digest, unit, workers)
    if not units or not digest.pace.steady_ns:
        raise CutawayError(
            f"{name} has no {unit}s in its steady state, so it has no pace; record more of it."
        )
    seconds = digest.pace.steady_ns / 1e9
    each = [_divided(digest, worker, workers) for worker in workers]
    parts = {}
    for part in ("work", "queue", "sync", "slowest", "serial"):
        share = mean(divided[part] for divided in each)
        parts[part] = count * share * seconds / units
    events = mean(worker.events for worker in workers) * count / units
    if _is_served(digest):
        server = f"process {_server(digest).name}"
    else:
        server = MAIN
    return Point(name, count, unit, units / seconds, parts, events, server)


def _is_served(digest: Digest) -> bool:
    return _server(digest).id != digest.main.id


def _server(digest: Digest) -> Process:
    """Whom the workers wait for: a process that answers them, if there is one, else the main process."""
    servers = [p for p in digest.processes if p.role == SERVER and p.layers]
    return max(servers, key=_busy_share, default=digest.main)


def _units(digest: Digest, unit: str, workers: Sequence[Process]) -> float:
    if unit == "step":
        return float(digest.pace.steps)
    if digest.main.id in [worker.id for worker in workers]:
        ranks = len(workers)
    else:
        ranks = 1
    return float(digest.pace.iterations * ranks)


def _divided(
    digest: Digest, worker: Process, workers: Sequence[Process]
) -> dict[str, float]:
    """Shares of a worker's time: its own work, waiting for a core, synchronising, waiting for the slowest, and for the main
    process."""
    own = _busy_share(worker)
    sync = _sync_share(digest, worker)
    queued = worker.queued_share or 0.0
    pushed = min(queued, own)  # off its core while it worked
    idle = max(0.0, 1.0 - own - sync)
    woken = min(queued - pushed, idle)  # but without a core yet
    queue = pushed + woken
    idle -= woken
    least_sync = min(_sync_share(digest, other) for other in workers)
    serial = 0.0
    if worker.id != digest.main.id and digest.main not in workers:
        server = _server(digest)
        serial = min(idle, _busy_share(server) + _sync_share(digest, server))
    longest = max(_busy_share(other) for other in workers)
    slowest = min(idle - serial, longest - own)
    rest = idle - serial - slowest  # hand-over: nobody works, messages travel
    usual = median_low([_working_share(other) for other in workers])
    more = max(0.0, own - pushed - usual)  # than its fellows
    return {
        "work": own - pushed - more,
        "queue": queue,
        "sync": least_sync + rest,
        "slowest": slowest + more + sync - least_sync,
        "serial": serial,
    }


def _working_share(process: Process) -> float:
    """Share of its time in which a process has a core and works."""
    busy = _busy_share(process)
    return busy - min(process.queued_share or 0.0, busy)


def _total(process: Process) -> float:
    return float(sum(process.layers.values())) or 1.0


def _busy_share(process: Process) -> float:
    """Share of its time in which a process works, synchronising left out."""
    busy = sum(ns for layer, ns in process.layers.items() if layer != "wait")
    return max(0.0, busy - process.operations.get(SYNC, 0)) / _total(process)


def _sync_share(digest: Digest, process: Process) -> float:
    """Share of its time in operation `sync`, waiting included."""
    waited = sum(
        wait.ns
        for wait in digest.waits
        if wait.process == process.id and wait.operation == SYNC
    )
    return (process.operations.get(SYNC, 0) + waited) / _total(process)


def scaled(points: Sequence[Point]) -> list[Scaled]:
    """Every run beside the one with the fewest workers."""
    ordered = sorted(points, key=lambda p: p.workers)
    base = ordered[0]
    if base.workers == ordered[-1].workers:
        raise CutawayError(
            "All runs have the same number of workers; name runs with different numbers, or say them with --workers 1,2,4."
        )
    return [_scaled(base, one) for one in ordered]


def _scaled(base: Point, one: Point) -> Scaled:
    grown = {part: one.parts[part] - base.parts[part] for part in one.parts}
    if base.events:
        ratio = one.events / base.events
    else:
        ratio = 1.0
    more_calls = base.parts["work"] * max(0.0, ratio - 1.0)
    work = min(max(grown["work"], 0.0), more_calls)
    grown["machine"] = grown["work"] - work
    grown["work"] = work
    losses = {part: grown[part] / one.cost for part in PARTS}
    return Scaled(one, one.rate / base.rate, base.cost / one.cost, losses)


def sentence(runs: Sequence[Scaled]) -> str:
    """What the largest run says."""
    base = runs[0]
    last = runs[-1]
    what = f"{last.point.workers} workers are {last.speedup:.2f} times as fast as {base.point.workers}"
    ideal = last.point.workers / base.point.workers
    if not last.largest:
        return f"SCALES WELL: {what}, of {ideal:g} possible."
    part = PARTS[last.largest]
    share = last.losses[last.largest]
    told = (
        f"{part.label}: {what}, of {ideal:g} possible: {percent(1 - last.efficiency)} of their time is lost, "
        f"{percent(share)} because {part.meaning}. Try: {part.advice}."
    )
    return told.replace(MAIN, last.point.server)


HEADS = {
    "serial": "serial",
    "slowest": "slowest",
    "sync": "sync",
    "queue": "no core",
    "work": "more work",
    "machine": "machine",
}


def table(runs: Sequence[Scaled]) -> list[str]:
    """Rows for the terminal, in 80 columns: the pace, and what was lost to what."""
    unit = runs[0].point.unit
    heads = "  ".join(HEADS.values())
    lines = [f"workers  {unit + 's/s':>9}  speed-up  used   lost: {heads}"]
    for run in runs:
        lost = "  ".join(_cell(run.losses[part], len(HEADS[part])) for part in HEADS)
        pace = f"{run.point.workers:7}  {run.point.rate:9.1f}  {run.speedup:8.2f}"
        lines.append(f"{pace}  {100 * run.efficiency:3.0f} %        {lost}")
    return lines


def _cell(share: float, width: int) -> str:
    if abs(share) >= 0.005:
        text = f"{100 * share:.0f} %"
    else:
        text = "-"
    return text.rjust(width)


def as_json(runs: Sequence[Scaled]) -> dict[str, object]:
    """Everything, for scripts."""
    rows = []
    for run in runs:
        about = {"name": run.point.name, "workers": run.point.workers}
        pace = {"rate": run.point.rate, "speedup": run.speedup}
        rows.append(
            {**about, **pace, "efficiency": run.efficiency, "losses": run.losses}
        )
    return {
        "schema": "cutaway.scaling/1",
        "unit": runs[0].point.unit,
        "verdict": sentence(runs),
        "runs": rows,
    }
