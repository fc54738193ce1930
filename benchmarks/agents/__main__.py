"""Does a scripted agent reach the planted line, and after how many commands? And a person?

    python -m benchmarks.agents [NAME …] [--seconds 3] [--json FILE] [--page docs/evidence/agents.md]

No model is called. The agent starts with `cutaway run`, reads what is printed, and runs what "next" (for a person: "why") tells it,
at most five commands. It has reached the line when "try" names it, or when it is among the first three rows of a table of lines.
With `--json` it goes on where it was cut off: what that file holds is not walked again, unless it is named. The caption says how busy
the machine was; alone on two cores it takes about a quarter of an hour.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.agents.planted import CAUSES, lines

BEGIN, END = "<!-- made by benchmarks.agents -->", "<!-- end -->"
MOST_COMMANDS = 5
ROWS = 3
PLACE = re.compile(r"([\w-]+\.py):(\d+)")
READERS = {"agent": "next", "person": "why"}
"""Which line of the output each follows: the agent reads a pipe, the person a terminal's summary."""


@dataclass(frozen=True)
class Walk:
    """How one reader fared with one program."""

    program: str
    reader: str
    commands: int  # until the line was reached; 0: not reached
    rule: str
    named: str  # how it was named: in "try", or in a row of a table
    load: float = 0.0  # average of the machine when it was done


def walk(program: str, reader: str, seconds: float, folder: Path) -> Walk:
    """Follow what the tool says, from the first command on."""
    run = folder / f"{program}-{reader}.cutaway"
    words = ["-m", "benchmarks.verdicts.programs", program, str(seconds)]
    command = ["cutaway", "run", "--simulator", "zlib", "-o", str(run), *words]
    seen: list[list[str]] = []
    rule = ""
    for number in range(1, MOST_COMMANDS + 1):
        seen.append(command)
        said = output(command)
        rule = next(iter(re.findall(r"^rule: (.+)$", said, re.M)), rule)
        if named := reached(said, lines(program)):
            return Walk(program, reader, number, rule, named, os.getloadavg()[0])
        follow = [one for one in advised(said, READERS[reader]) if one not in seen]
        # Recording again comes after a change, and this reader has not found what to change.
        follow = [one for one in follow if one[1] == "show"]
        if not follow:
            break
        command = follow[0]
    return Walk(program, reader, 0, rule, "", os.getloadavg()[0])


def output(command: list[str]) -> str:
    """What a command prints, on both streams, into a pipe."""
    environment = {key: value for key, value in os.environ.items() if key != "CUTAWAY"}
    done = subprocess.run(
        [sys.executable, "-m", *command],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return done.stdout + done.stderr


def advised(said: str, key: str) -> list[list[str]]:
    """The commands that the output tells to run, in its order."""
    found = re.findall(rf"^{key}: +(cutaway .+?)(?:  # .*)?$", said, re.M)
    return [shlex.split(command) for command in found]


def reached(said: str, wanted: set[tuple[str, int]]) -> str:
    """How the output names one of the lines; empty if it does not."""
    plain = re.sub(r"\s*\|\n\|\s*", " ", said)  # the lines of the box belong together
    advice = " ".join(
        re.findall(r"(?:try|Try): (.+?)(?=\n[a-z]+:|Then:|\+--|$)", plain, re.S)
    )
    if places(advice) & wanted:
        return "try"
    rows = 0
    for line in said.splitlines():
        here = places(line)
        if not re.match(r"^\s*(\d+(\.\d)? %|\S*\.py:\d|…|\.\.\.)", line) or not here:
            rows = 0 if not here else rows
            continue
        rows += 1
        if rows <= ROWS and here & wanted:
            return f"row {rows}"
    return ""


def places(text: str) -> set[tuple[str, int]]:
    """Every file and line that a text names."""
    return {(file, int(number)) for file, number in PLACE.findall(text)}


def table(walks: list[Walk]) -> str:
    """Markdown: a row for each program, and how many were reached."""
    rows = ["| program | rule | agent | person |", "|---|---|---|---|"]
    for name in dict.fromkeys(walk.program for walk in walks):
        of = {one.reader: one for one in walks if one.program == name}
        cells = [_cell(of[reader]) if reader in of else "" for reader in READERS]
        rule = next((one.rule for one in of.values() if one.rule), "")
        rows.append(f"| {name} | {f'`{rule}`' if rule else ''} | {' | '.join(cells)} |")
    counts = []
    for reader in READERS:
        own = [one for one in walks if one.reader == reader]
        hit = [one.commands for one in own if one.commands]
        mean = f", {sum(hit) / len(hit):.1f} commands on average" if hit else ""
        counts.append(f"{len(hit)} of {len(own)}{mean}")
    return "\n".join([*rows, f"| **reached** | | {' | '.join(counts)} |"])


def caption(walks: list[Walk]) -> str:
    """Whether the machine was quiet."""
    loads = [one.load for one in walks]
    busy = f"{min(loads):.1f} to {max(loads):.1f}"
    return f"The load average was {busy} on {os.cpu_count()} cores, this benchmark's own programs included."


def _cell(one: Walk) -> str:
    return f"{one.commands} ({one.named})" if one.commands else "**not reached**"


def put_into(page: Path, made: str) -> None:
    """Replaces what stands between the two marks of a page."""
    head, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no lines {BEGIN} and {END}")
    page.write_text(f"{head}{BEGIN}\n\n{made}\n\n{END}{tail}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.agents")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="programs (default: all)"
    )
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--json", type=Path, help="results so far; read and written")
    parser.add_argument("--page", type=Path, help="put the table into this page")
    args = parser.parse_args()
    known = (
        json.loads(args.json.read_text()) if args.json and args.json.is_file() else []
    )
    walks = {(one["program"], one["reader"]): Walk(**one) for one in known}
    for name in args.names or CAUSES:
        for reader in READERS:
            if (name, reader) in walks and not args.names:
                continue
            with tempfile.TemporaryDirectory() as folder:
                walks[name, reader] = walk(name, reader, args.seconds, Path(folder))
            print(walks[name, reader], file=sys.stderr, flush=True)
            if args.json:
                found = [asdict(one) for one in walks.values()]
                args.json.write_text(json.dumps(found, indent=1))
    done = list(walks.values())
    made = f"{caption(done)}\n\n{table(done)}"
    print(made)
    if args.page:
        put_into(args.page, made)
    return 0 if all(one.commands for one in walks.values()) else 1


if __name__ == "__main__":
    raise SystemExit(main())
