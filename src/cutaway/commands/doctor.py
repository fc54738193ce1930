"""cutaway doctor: what can be captured here, and why not."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap

from cutaway.doctor import Host, examine

HELP = "show what can be recorded on this machine, and what to do about the rest"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--processes",
        metavar="N",
        type=int,
        default=1,
        help="how many processes your training has",
    )
    add("--json", action="store_true", help="for scripts")


def run(args: argparse.Namespace) -> None:
    findings = examine(Host(), max(1, args.processes))
    if args.json:
        print(json.dumps([finding._asdict() for finding in findings], indent=1))
        return
    if sys.stdout.isatty():
        width = min(shutil.get_terminal_size((80, 24)).columns, 100)
    else:
        width = 80
    for finding in findings:
        head = f"{finding.state:<8} {finding.what:<20} "
        rest = " " * len(head)
        lines = textwrap.wrap(
            finding.text, width, initial_indent=head, subsequent_indent=rest
        )
        if finding.remedy:
            remedy = f"-> {finding.remedy}"
        else:
            remedy = ""
        lines += textwrap.wrap(
            remedy, width, initial_indent=rest, subsequent_indent=rest + "   "
        )
        print("\n".join(lines))
