"""What a recording weighs: bytes an event, and a million steps of PPO CartPole.

python -m benchmarks.overhead.disk
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from cutaway.trace.format import kinds
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind

# PPO as Stable-Baselines3 ships it: the program of the overhead table has shorter rollouts.
PROGRAM = """
import sys
from benchmarks.overhead.programs import make
from stable_baselines3 import PPO
name, steps = sys.argv[1:]
model = make(name)[0]
if name == "ppo":
    model = PPO("MlpPolicy", "CartPole-v1", seed=1, device="cpu")
model.learn(int(steps))
"""
STEPS = {"ppo": 20_480, "dqn": 600, "sac": 400, "sbx": 400}


def weigh(program: str, steps: int) -> dict[str, float]:
    """Records a program whole; an event is a call, an operation, a mark: whatever took a record or two."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run.cutaway"
        words = [
            "run",
            "-q",
            "-o",
            str(run),
            sys.executable,
            "-c",
            PROGRAM,
            program,
            str(steps),
        ]
        subprocess.run(
            [sys.executable, "-m", "cutaway", *words],
            check=True,
            cwd=Path(__file__).parents[2],
        )
        size = sum(p.stat().st_size for p in run.rglob("*") if p.is_file())
        packed = sum(p.stat().st_size for p in run.rglob("events.bin"))
        events = 0
        for process in read_run(run).processes:
            for thread in process.threads:
                for block in process.records(thread):
                    k = kinds(block)
                    events += len(k) - int(
                        ((k == Kind.EXIT) | (k == Kind.OP_EXIT)).sum()
                    )
    return {"steps": steps, "events": events, "bytes": size, "packed": packed}


def report() -> list[str]:
    lines = ["| program | events a step | events.bin, bytes an event | whole folder, bytes an event | 1 M steps |",
             "|---|---|---|---|---|"]  # fmt: skip
    for program, steps in STEPS.items():
        w = weigh(program, steps)
        fixed = w["bytes"] - w["packed"]
        million = (w["packed"] / w["steps"] * 1e6 + fixed) / 1e6
        lines.append(
            f"| {program} | {w['events'] / steps:.0f} | {w['packed'] / w['events']:.2f} "
            f"| {w['bytes'] / w['events']:.2f} | {million:,.0f} MB |"
        )
    return lines


if __name__ == "__main__":
    print("\n".join(report()))
