"""`python -m cutaway_workloads.backends --backend jax --algorithm td3`."""

from __future__ import annotations

import argparse
import sys

from . import BACKENDS
from .agent import ALGORITHMS


def main(argv: list[str] | None = None) -> int:
    """Trains one agent; prints its return after every iteration."""
    parser = argparse.ArgumentParser(
        prog="python -m cutaway_workloads.backends", description=__doc__
    )
    parser.add_argument(
        "--backend", choices=BACKENDS, default="torch", help="default: torch"
    )
    parser.add_argument(
        "--algorithm", choices=ALGORITHMS, default="td3", help="default: td3"
    )
    parser.add_argument(
        "--env", default="Walker2d-v5", help="gymnasium id with continuous actions"
    )
    parser.add_argument(
        "--steps", type=int, default=10_000, help="environment steps (default: 10000)"
    )
    parser.add_argument(
        "--every",
        type=int,
        default=1000,
        help="steps, then as many updates (default: 1000)",
    )
    parser.add_argument(
        "--warm-up",
        type=int,
        default=1000,
        help="random steps at first (default: 1000)",
    )
    parser.add_argument("--batch", type=int, default=100, help="default: 100")
    parser.add_argument(
        "--hidden",
        default="400,300",
        help="sizes of the hidden layers (default: 400,300)",
    )
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    args = vars(parser.parse_args(argv))
    args["hidden"] = tuple(int(size) for size in args["hidden"].split(","))
    from .loop import Plan, train

    train(Plan(**args), say=lambda line: print(line, flush=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
