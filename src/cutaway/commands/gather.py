"""cutaway gather: bring the parts of a run of several hosts to its folder."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from cutaway.errors import CutawayError
from cutaway.record.places import scratch
from cutaway.trace.files import read_object

HELP = "bring the parts of a run together that other hosts recorded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help="a run: NAME.cutaway")
    add(
        "--ray",
        metavar="ADDRESS",
        default=os.environ.get("RAY_ADDRESS", ""),
        help="the Ray cluster whose nodes recorded it (default: $RAY_ADDRESS; auto: the one of this host)",
    )


def run(args: argparse.Namespace) -> int:
    missing = gather(Path(args.path).absolute(), args.ray)
    for sentence in missing or [f"all parts that can be reached are in {args.path}"]:
        _say(sentence)
    return 1 if missing else 0


def gather(path: Path, address: str) -> list[str]:
    """Brings what can be had to a run's folder; a sentence for each part that cannot."""
    from cutaway.cluster import gather as parts

    if not path.is_dir():
        raise CutawayError(f"There is no run at {path}; give the folder NAME.cutaway that a recording made.")
    about = read_object(path / "run.json")
    if not about:
        raise CutawayError(f"{path} is not a Cutaway run: it has no run.json.")
    options = about.get("options")
    local = Path((isinstance(options, dict) and options.get("local")) or scratch(str(path)))
    missing = []
    if not parts.gather_here(path, local):
        missing.append("processes on this host are still recording; gather again when they have ended")
    if address:
        missing += parts.gather_from_ray(path, local, address, _say)
    return missing


def _say(text: str) -> None:
    print(f"cutaway: {text}", file=sys.stderr)
