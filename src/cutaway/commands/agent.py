"""cutaway agent: what a coding agent needs to know about Cutaway."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = "install the skill that tells coding agents how to use Cutaway"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    from cutaway.agents.install import PLACES

    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    install = actions.add_parser(
        "install", help="write the skill where agents look for it"
    )
    add = install.add_argument
    add(
        "--for",
        dest="agent",
        choices=sorted(PLACES),
        default="claude",
        help="for which agent (default: claude)",
    )
    add("--user", action="store_true", help="for all your projects, not only this one")
    add(
        "--to",
        type=Path,
        metavar="FOLDER",
        help="a folder of skills; overrides the two above",
    )
    add("--force", action="store_true", help="replace a skill that was edited")
    actions.add_parser("skill", help="print the skill")


def run(args: argparse.Namespace) -> None:
    from cutaway.agents.install import PLACES, install, skill

    if args.action == "skill":
        print(skill(), end="")
        return
    base = Path.home() if args.user else Path()
    path = install(args.to or base / PLACES[args.agent], args.force)
    print(
        f"wrote {path}\nnext: ask your agent to make training faster, e.g. 'profile train.py with cutaway'"
    )
