"""Throughput at numbers of actors the model has not seen: recorded runs of our trainer, demands from some, predictions for the others.

    python benchmarks/heldout.py [--seconds 6] [--repeat 6] [--env synthetic,atari]     about ten minutes

The accelerator is emulated (it sleeps); environments, processes, transport, replay and rate lock are real. Demands are calibrated at
4 and 8 actors (enough to keep two CPUs awake); 1, 2, 3 and 16 are predicted. Nothing is fitted to throughput. What other
programs used of the CPUs at each point is printed and taken off the machine's capacity. Last: how long one prediction takes.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from cutaway.balance import probe, simulation, sources, sweep
from cutaway.balance.machine import Machine
from cutaway.balance.sources import Source
from cutaway.errors import CutawayError

ENVS = {"synthetic": ("synthetic:500", "300,20,5000"), "atari": ("atari:Pong", "300,20,5000")}
CALIBRATE, HELD_OUT = (4, 8), (1, 2, 3, 16)


def sweep_trainer(env: str, device: str, seconds: float, repeat: int, folder: Path) -> list[sweep.Row]:
    """A recorded sweep of the trainer; disturbed points are not repeated here, so that the benchmark ends in time."""
    trainer = (sys.executable, "-m", "cutaway_workloads.r2d2", "--env", env, "--actors", "{actors}")
    small = ("--unroll", "20", "--burn-in", "10", "--batch", "8", "--replay-minimum", "20")
    command = (
        *trainer,
        *small,
        "--emulate-device",
        device,
        "--seconds",
        str(seconds),
        "--progress-seconds",
        "60",
    )
    plan = sweep.Plan(command, actors=(*CALIBRATE, *HELD_OUT), repeat=repeat)

    def tell(done: int, all_: int, point: object) -> None:
        print(f"\r{env}: {done} of {all_} runs", end="" if done < all_ else "\n", file=sys.stderr, flush=True)

    sweep.RETRIES = 0
    return sweep.table(sweep.run(plan, folder, tell))


def compare(name: str, source: Source) -> list[float]:
    """Prints measured and predicted at every held-out point; returns the errors."""
    assert source.calibration is not None
    demands = source.calibration.demands()
    print(
        f"\n{name}: environment step {1e6 * demands.env_step.mean:.0f} µs CPU, server {1e6 * demands.server(4):.0f} µs CPU "
        f"and device {1e6 * demands.device(4):.0f} µs for a batch of 4"
    )
    print("actors   measured  95 % interval      predicted  95 % interval       error  others' cores")
    errors = []
    for held in source.held_out():
        row, p = held.row, held.predicted
        errors.append(held.error)
        print(
            f"{row.actors:6} {row.steps_per_s:10,.0f}  {f'{row.low:,.0f} … {row.high:,.0f}':16} {p.steps_per_s:11,.0f}  "
            f"{f'{p.low:,.0f} … {p.high:,.0f}':16} {held.error:+8.1%} {row.foreign_cores:8.2f}"
        )
    print(f"mean error {np.mean(np.abs(errors)):.1%}, worst {np.max(np.abs(errors)):.1%}")
    return errors


def milliseconds(source: Source, machine: Machine) -> None:
    """How long a point takes, with its interval."""
    assert source.calibration is not None
    demands = source.calibration.demands()
    print("\nmilliseconds of CPU for one prediction")
    for actors in (8, 64, 256):
        for draws in (0, 8):
            start = time.process_time()
            simulation.predict(demands, machine, actors, draws=draws)
            took = 1e3 * (time.process_time() - start)
            print(f"{actors:6} actors, {'with' if draws else 'without'} interval: {took:6.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=6.0, help="length of a run (default 6)")
    parser.add_argument("--repeat", type=int, default=6, help="runs of each point (default 6)")
    parser.add_argument("--env", default="synthetic,atari", help="which environments (default both)")
    parser.add_argument("--keep", type=Path, help="keep the sweeps in this folder")
    args = parser.parse_args()
    probed = probe.probe()
    print("\n".join(probed.lines()))
    with tempfile.TemporaryDirectory() as temporary:
        for name in args.env.split(","):
            if name not in ENVS:
                raise CutawayError(f"--env {name}: choose from {', '.join(ENVS)}.")
            folder = (args.keep or Path(temporary)) / name
            sweep_trainer(*ENVS[name], args.seconds, args.repeat, folder)
            source = sources.load([folder], CALIBRATE)
            compare(ENVS[name][0], source)
        milliseconds(source, dataclasses.replace(source.machine, foreign=0.0))


if __name__ == "__main__":
    main()
