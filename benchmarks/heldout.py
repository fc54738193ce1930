"""How far off are predictions at numbers of actors the model has not seen? Measures our trainer and compares.

    python -m benchmarks.heldout                 one series, both environments: about 8 minutes on a quiet machine
    python -m benchmarks.heldout --series 3      three of them
    python -m benchmarks.heldout --table         no measurement: all stored series, predicted by the model as it is now

A second table shows what the runs cost at each number of actors: it says where an error comes from.

Demands come from runs with 4 and 8 actors (enough to keep two CPUs awake); 1, 2, 3 and 16 are predicted. Nothing is fitted to
throughput. The accelerator is emulated (it sleeps); environments, processes, transport, replay and rate lock are real.

All numbers of actors run in each round, in random order. A prediction uses only the runs of its own round, so that a machine
whose speed drifts does not look like an error of the model; the error at a point is the median over the rounds, with its 95 %
interval. Every series is kept in `results/heldout.jsonl` with what was observed, so that a changed model can be tried on old series.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.errors import CutawayError
from cutaway.machines.machine import Machine, load
from cutaway.trace.reader import read_run
from cutaway_balance import grid, model, sources
from cutaway_balance.demands import Observed, Server, Time, combine, typical
from cutaway_balance.observe import observe
from cutaway_balance.point import Measured, Plan

ENVS = {"synthetic": "synthetic:500", "Pong": "atari:Pong"}
DEVICE = "300,20,5000"  # µs: a batch of n takes 300 + 20 n, a training step 5000
MEASURED_AT, HELD_OUT = (4, 8), (1, 2, 3, 16)
RESULTS = Path(__file__).with_name("results") / "heldout.jsonl"


@dataclasses.dataclass(frozen=True)
class Run:
    """One recorded run: how fast it went, and what was observed in it."""

    actors: int
    round: int
    steps_per_s: float
    foreign: float
    observed: Observed


@dataclasses.dataclass(frozen=True)
class Series:
    """All runs of one environment, measured in one go."""

    env: str
    date: str
    cpu: str
    machine: Machine
    known: dict[str, Any]
    runs: tuple[Run, ...]

    def errors(self) -> dict[int, list[float]]:
        """Predicted ÷ measured − 1 in each round, by number of actors."""
        found: dict[int, list[float]] = {n: [] for n in HELD_OUT}
        for number in sorted({run.round for run in self.runs}):
            runs = [run for run in self.runs if run.round == number]
            feels = (
                self.machine.unshared()
                if self.known.get("burns_time")
                else self.machine
            )
            seen = [
                run.observed.alone(feels) for run in runs if run.actors in MEASURED_AT
            ]
            if not seen:
                continue
            demands = combine(seen, self.known)
            for run in runs:
                if run.actors in found and run.steps_per_s > 0:
                    at = dataclasses.replace(self.machine, foreign=run.foreign)
                    expected = model.predict(
                        demands, at, run.actors, draws=0
                    ).steps_per_s
                    found[run.actors].append(expected / run.steps_per_s - 1)
        return found


def measure(env: str, seconds: float, rounds: int, folder: Path) -> Series:
    """A recorded grid of the trainer; disturbed points are not repeated, so that it ends in time."""
    trainer = (
        sys.executable,
        "-m",
        "cutaway_workloads.r2d2",
        "--env",
        ENVS[env],
        "--actors",
        "{actors}",
    )
    small = (
        "--unroll",
        "20",
        "--burn-in",
        "10",
        "--batch",
        "8",
        "--replay-minimum",
        "20",
    )
    device = (
        "--emulate-device",
        DEVICE,
        "--seconds",
        str(seconds),
        "--progress-seconds",
        "60",
    )
    plan = Plan(
        (*trainer, *small, *device), actors=(*MEASURED_AT, *HELD_OUT), repeat=rounds
    )

    def tell(done: int, all_: int, point: Measured) -> None:
        print(
            f"\r{env}: {done} of {all_} runs",
            end="" if done < all_ else "\n",
            file=sys.stderr,
            flush=True,
        )

    points = [p for p in grid.run(plan, folder, tell, retries=0) if p.enough]
    paths = {p.setting.name: folder / p.setting.name / "run.cutaway" for p in points}
    runs = [
        Run(
            p.setting.actors or 0,
            p.setting.repeat,
            p.steps_per_s,
            p.foreign_cores,
            observe(paths[p.setting.name]),
        )
        for p in points
    ]
    machine = dataclasses.replace(load(str(folder / grid.MACHINE)), name="")
    known = sources.described(read_run(paths[points[0].setting.name]))
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M")
    return Series(env, date, _cpu(), machine, known, tuple(runs))


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    name = next(
        (line.partition(": ")[2] for line in lines if line.startswith("model name")),
        "unknown",
    )
    virtual = any(line.startswith("flags") and " hypervisor" in line for line in lines)
    return name + (", virtual" if virtual else "")


def stored() -> list[Series]:
    """All series measured so far."""
    lines = RESULTS.read_text().splitlines() if RESULTS.exists() else []
    return [_series(json.loads(line)) for line in lines]


def _series(values: dict[str, Any]) -> Series:
    def run(v: dict[str, Any]) -> Run:
        o = v["observed"]
        times = {
            name: Time(**o[name])
            for name in ("env_step", "overhead", "train_host", "train_device")
        }
        return Run(
            **{
                **v,
                "observed": Observed(**{**o, **times, "server": Server(**o["server"])}),
            }
        )

    machine = Machine(**values["machine"])
    return Series(
        **{**values, "machine": machine, "runs": tuple(run(v) for v in values["runs"])}
    )


def demands(series: Sequence[Series]) -> str:
    """What the runs show at each number of actors, in µs of CPU or sleep, medians over the rounds: where it changes with the number
    of actors, the model, which takes it from 4 and 8, errs."""
    heads = (
        "actors",
        "env step",
        "rest of actor",
        "batch",
        "host",
        "reply",
        "after",
        "device",
        "latency",
        "cores busy",
    )
    lines = ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for one in series:
        for n in sorted({run.actors for run in one.runs}):
            seen = [run.observed for run in one.runs if run.actors == n]
            us = [
                (
                    o.env_step.mean,
                    o.overhead.mean,
                    *dataclasses.astuple(o.server),
                    o.latency,
                )
                for o in seen
            ]
            env, rest, *server, latency = (
                f"{1e6 * v:.0f}" for v in np.median(us, axis=0)
            )
            batch, busy = (
                np.median([getattr(o, name) for o in seen])
                for name in ("batch", "busy")
            )
            cells = (str(n), env, rest, f"{batch:.1f}", *server, latency, f"{busy:.1f}")
            lines.append(f"| {one.env} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def table(series: Sequence[Series]) -> str:
    """One line a series in Markdown, then the spread over all of them."""
    lines = [
        "| | "
        + " | ".join(f"{n} actor{'s' * (n > 1)}" for n in HELD_OUT)
        + " | mean error | measured |"
    ]
    lines.append("|---" * (len(HELD_OUT) + 3) + "|")
    means: dict[str, list[float]] = {}
    for one in series:
        points = {n: typical(errors) for n, errors in one.errors().items() if errors}
        cells = [f"{100 * e:+.1f} % (± {196 * s:.0f})" for e, s in points.values()]
        means.setdefault(one.env, []).append(
            float(np.mean([abs(e) for e, _ in points.values()]))
        )
        others = max(run.foreign for run in one.runs)
        about = f"{one.date}, {one.machine.threads} × {one.cpu}, others up to {others:.1f} cores"
        lines.append(
            f"| {one.env} | {' | '.join(cells)} | {means[one.env][-1]:.1%} | {about} |"
        )
    lines.append("")
    for env, found in means.items():
        spread = f"{min(found):.1%} to {max(found):.1%}, median {np.median(found):.1%}"
        lines.append(f"{env}: mean error {spread} over {len(found)} series")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--series", type=int, default=1, help="how many series to measure (default 1)"
    )
    parser.add_argument(
        "--seconds", type=float, default=5.0, help="length of a run (default 5)"
    )
    parser.add_argument(
        "--rounds", type=int, default=4, help="runs of each point (default 4)"
    )
    parser.add_argument(
        "--env", default=",".join(ENVS), help="which environments (default both)"
    )
    parser.add_argument(
        "--table", action="store_true", help="only print the table of all stored series"
    )
    parser.add_argument("--dry", action="store_true", help="do not keep the series")
    args = parser.parse_args()
    envs = args.env.split(",")
    if unknown := set(envs) - set(ENVS):
        raise CutawayError(f"--env {unknown.pop()}: choose from {', '.join(ENVS)}.")
    found = stored() if args.table else []
    for _ in range(0 if args.table else args.series):
        for env in envs:
            with tempfile.TemporaryDirectory() as folder:
                found.append(measure(env, args.seconds, args.rounds, Path(folder)))
            if not args.dry:
                RESULTS.parent.mkdir(exist_ok=True)
                with RESULTS.open("a") as file:
                    file.write(json.dumps(dataclasses.asdict(found[-1])) + "\n")
    print(table(found) + "\n\n" + demands(found))


if __name__ == "__main__":
    main()
