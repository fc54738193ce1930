"""`python -m cutaway_workloads.r2d2`."""

from __future__ import annotations

import sys

from cutaway import CutawayError


def main(argv: list[str] | None = None) -> int:
    """Trains or evaluates; 0 when all went well, 1 when the run failed, 2 when the command line was wrong."""
    from .arguments import config_of, parser

    args = parser().parse_args(argv)
    try:
        config = config_of(args)
        if episodes := getattr(args, "evaluate", 0):
            from .evaluate import evaluate

            print(evaluate(config, episodes))
        else:
            from .train import run

            run(config)
    except CutawayError as error:
        print(f"r2d2: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
