"""cutaway gather: bring the parts of a run of several hosts to its folder."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from cutaway.cluster.gather import gather
from cutaway.commands import say

HELP = "collect the parts of a run that other machines recorded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("path", metavar="RUN", help="folder NAME.cutaway")
    ray = "the Ray cluster that recorded it (default: $RAY_ADDRESS; auto: the cluster of this machine)"
    add("--ray", metavar="ADDRESS", default=os.environ.get("RAY_ADDRESS", ""), help=ray)


def run(args: argparse.Namespace) -> int:
    missing = gather(Path(args.path).absolute(), args.ray, say)
    for sentence in missing or [f"{args.path} now has every part that can be reached"]:
        say(sentence)
    return int(len(missing) > 0)
