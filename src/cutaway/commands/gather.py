"""cutaway gather: bring the parts of a run of several hosts to its folder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cutaway.commands import say
from cutaway.errors import CutawayError

HELP = "collect the parts of a run that other machines recorded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help="folder NAME.cutaway")
    ray = "the Ray cluster that recorded it (default: $RAY_ADDRESS; auto: the cluster of this machine)"
    add("--ray", metavar="ADDRESS", default=os.environ.get("RAY_ADDRESS", ""), help=ray)


def run(args: argparse.Namespace) -> int:
    missing = gather(Path(args.path).absolute(), args.ray)
    for sentence in missing or [f"{args.path} now has every part that can be reached"]:
        say(sentence)
    return 1 if missing else 0


def gather(path: Path, address: str) -> list[str]:
    """Brings what can be had to a run's folder; a sentence for each part that cannot."""
    from cutaway.cluster import gather as parts

    if not path.is_dir():
        raise CutawayError(f"There is no run at {path}; name a folder NAME.cutaway that `cutaway run` made.")
    local, missing = parts.local_of(path), []
    if not parts.gather_here(path, local):
        missing.append("processes on this host are still recording; run this again when they have ended")
    if address:
        missing += parts.gather_from_ray(path, local, address, say)
    return missing
