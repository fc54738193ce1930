"""`python -m studies.survey [--quick] [--only PATTERN]`: record what is missing, then write figures and docs/survey.md."""

from __future__ import annotations

import argparse
import fnmatch
import sys
from pathlib import Path

from studies.survey.cells import cells
from studies.survey.learning import learn, lessons
from studies.survey.record import record, refine
from studies.survey.write import write


def main(words: list[str] | None = None) -> int:
    """1 if a cell failed."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.survey", description=__doc__
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="fewer steps, one run a cell; about ten minutes",
    )
    parser.add_argument(
        "--only",
        metavar="PATTERN",
        default="*",
        help="cells such as 'backends-td3/jax*'",
    )
    parser.add_argument(
        "--learn",
        action="store_true",
        help="with --quick: check that the programs learn, too",
    )
    parser.add_argument("--list", action="store_true", help="print the cells and stop")
    parser.add_argument(
        "--folder", type=Path, help="where runs are kept (default: build/survey)"
    )
    parser.add_argument(
        "--docs",
        type=Path,
        default=Path("docs"),
        help="where survey.md goes (default: docs)",
    )
    args = parser.parse_args(words)
    chosen = [cell for cell in cells() if fnmatch.fnmatch(cell.name, args.only)]
    if args.list:
        print("\n".join(f"{cell.name}: {' '.join(cell.command())}" for cell in chosen))
        return 0
    if args.quick:
        chosen = [cell.quick() for cell in chosen]
    folder = args.folder or Path("build/survey-quick" if args.quick else "build/survey")
    repeats = 1 if args.quick else 3
    failed = record(chosen, folder, repeats)
    if not args.quick:
        failed += refine(chosen, folder, repeats)
    (args.docs / "images").mkdir(parents=True, exist_ok=True)
    learned = learn(
        lessons(),
        Path("build/survey/learning"),
        only_known=not args.learn and (args.quick or args.only != "*"),
    )
    for finding in write(chosen, folder, args.docs, args.quick, learned):
        print(f"{finding.verdict:>30}  {finding.claim} ({finding.ours})")
    for line in dict.fromkeys(failed):
        print(f"survey: {line}", file=sys.stderr)
    print(f"wrote {args.docs}/survey.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
