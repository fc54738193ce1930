"""Runs one program and prints its rates.

python -m benchmarks.whatif.programs NAME SECONDS [SETTING=N …]
"""

from __future__ import annotations

import importlib
import json
import sys

import cutaway

HOMES = {
    "ppo": "frameworks",
    "dqn": "frameworks",
    "vector": "frameworks",
    "actor_learner": "loops",
    "replay": "loops",
    "lockstep": "loops",
    "served": "loops",
    "r2d2": "trainer",
    "impala": "trainer",
    "rllib": "distributed",
    "torchrl": "distributed",
    "selfplay": "distributed",
}


def main() -> None:
    name, seconds, *given = sys.argv[1:]
    settings = {word.partition("=")[0]: int(word.partition("=")[2]) for word in given}
    cutaway.layer("zlib", "simulator")
    program = getattr(
        importlib.import_module(f"benchmarks.whatif.programs.{HOMES[name]}"), name
    )
    rate, cpu_rate = program(float(seconds), **settings)
    print(json.dumps({"rate": rate, "cpu_rate": cpu_rate}))


if __name__ == "__main__":
    main()
