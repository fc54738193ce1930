"""`python -m cutaway_workloads.selfplay --size 5 --workers 4`."""

from __future__ import annotations

import argparse
import sys

from cutaway import CutawayError

HELP = {
    "size": "board of so many lines",
    "workers": "self-play processes",
    "generations": "rounds of self-play, training and evaluation",
    "games": "self-play games in a generation",
    "matches": "games of the candidate against the best; it must win 55 %% (0: no games, always the new best)",
    "simulations": "descents of a search",
    "leaves": "positions evaluated at once in a search",
    "channels": "of the network",
    "blocks": "residual blocks of the network",
    "steps": "updates of the network in a generation",
    "batch": "positions in an update",
    "capacity": "positions kept",
    "seconds": "start no new generation after this many seconds; 0: no limit",
    "seed": "of everything random",
}


def main(argv: list[str] | None = None) -> int:
    """Trains; 1 if it cannot."""
    parser = argparse.ArgumentParser(
        prog="python -m cutaway_workloads.selfplay", description=__doc__
    )
    from .workers import Config

    defaults = Config()
    for name, text in HELP.items():
        value = getattr(defaults, name)
        parser.add_argument(
            f"--{name}",
            type=type(value),
            default=value,
            help=f"{text} (default: {value})",
        )
    parser.add_argument(
        "--komi", type=float, help="points for White (default: 7.5, below 7 lines 0.5)"
    )
    parser.add_argument(
        "--server",
        action="store_true",
        help="one inference server instead of a network in each worker",
    )
    parser.add_argument(
        "--device",
        default="cpu",
        help="cpu, opencl, or cuda (never run so far; default: cpu)",
    )
    parser.add_argument(
        "--versus-first",
        type=int,
        default=0,
        metavar="N",
        help="games against the first network at the end",
    )
    args = vars(parser.parse_args(argv))
    versus_first = args.pop("versus_first")
    if args["komi"] is None:
        args["komi"] = 7.5 if args["size"] >= 7 else 0.5
    try:
        import pyspiel  # noqa: F401

        from .train import run
    except ImportError as error:
        raise SystemExit(
            f"selfplay: {error.name} is missing: pip install 'cutaway-workloads[selfplay]'."
        ) from None
    try:
        run(Config(**args), versus_first, lambda line: print(line, flush=True))
    except CutawayError as error:
        print(f"selfplay: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
