"""cutaway balance: measure a program over the machine, explain, predict, advise; the GPU bottleneck stack."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cutaway.commands import write_page
from cutaway.errors import CutawayError
from cutaway.machines.files import shipped
from cutaway.machines.gpu import GPUS
from cutaway.machines.machine import HOSTS

HELP = "find out how many actors, CPUs and SMs to use"
VERBS = {
    "measure": "run a program with different numbers of actors and CPUs, and shares of the SMs",
    "explain": "show which resource limits throughput, and what more of it would gain",
    "predict": "predict throughput for other numbers of actors or another machine",
    "advise": "say how many actors to run, which CPU/GPU ratio you need and what to buy next",
    "machine": "measure this CPU: all cores busy, SMT, waking up",
    "kernels": "show what GPU time is spent on: math, SM utilisation, DRAM, latency",
}
TRACE = "a run recorded with --collector kineto --shapes or imported, or a Kineto trace with shapes (record_shapes=True)"
METRIC = (
    "take the throughput from the program's output: group 1 is a rate, a group named steps is a running total "
    "(default: record the run and count its steps)"
)
LIMIT_BY = "how to limit CPUs; a program can change its affinity, but cannot leave a control group"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(dest="what", required=True, metavar="|".join(VERBS))
    verbs = {
        name: sub.add_parser(name, help=text, description=text)
        for name, text in VERBS.items()
    }

    def numbers(
        parser: argparse.ArgumentParser,
        option: str,
        example: str,
        text: str,
        **more: Any,
    ) -> None:
        parser.add_argument(
            option, type=_numbers, default=(), metavar=example, help=text, **more
        )

    add = verbs["measure"].add_argument
    numbers(verbs["measure"], "--actors", "1,2,4", "values for {actors} in the command")
    numbers(
        verbs["measure"],
        "--cpus",
        "1,2",
        "CPUs the program may use, physical cores first",
    )
    numbers(
        verbs["measure"], "--sm-percent", "100,50", "percentage of the SMs (needs MPS)"
    )
    add("--repeat", type=int, default=3, help="runs of each point (default 3)")
    add("--metric", metavar="REGEX", help=METRIC)
    add("--seconds", type=float, help="stop each run after this many seconds")
    add("--limit-by", choices=("affinity", "cgroup"), default="affinity", help=LIMIT_BY)
    where = "folder for the runs and the table (default: grid)"
    add("-o", "--output", type=Path, default=Path("grid"), metavar="FOLDER", help=where)
    add(
        "command", nargs=argparse.REMAINDER, metavar="-- command …", help="your program"
    )
    for name in ("explain", "predict", "advise"):
        add = verbs[name].add_argument
        what = "folder made by `balance measure`, or recorded runs"
        add("source", type=Path, nargs="+", metavar="FOLDER|RUN", help=what)
        numbers(verbs[name], "--actors", "8,16", "numbers of actors to answer for")
        numbers(
            verbs[name],
            "--from",
            "1,4",
            "use only the runs with these numbers of actors",
            dest="only",
        )
        known = ", ".join(shipped(HOSTS))
        add("--machine", help=f"another machine: {known} or a TOML file")
        batch = (
            "inference batch: `seed` or a number of environments (default: as recorded)"
        )
        add("--batch", type=_batch, help=batch)
        add(
            "--timeout-us",
            type=float,
            help="dynamic batching: start a batch after this many µs",
        )
    add = verbs["machine"].add_argument
    add("-o", "--output", type=Path, metavar="FILE.toml", help="write a machine file")
    add = verbs["kernels"].add_argument
    add("trace", type=Path, metavar="RUN|TRACE", help=TRACE)
    add("--gpu", required=True, help=f"{', '.join(shipped(GPUS))} or a TOML file")
    for name in VERBS.keys() - {"measure"}:
        verbs[name].add_argument("--json", action="store_true", help="for scripts")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        values = tuple(int(v) for v in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a list of whole numbers such as 1,2,4"
        ) from None
    if min(values) < 1:
        raise argparse.ArgumentTypeError("numbers must be at least 1")
    return values


def _batch(text: str) -> int | str:
    if text == "seed":
        return text
    return _numbers(text)[0]


def run(args: argparse.Namespace) -> int:
    if args.what == "measure":
        return _measure(args)
    from cutaway.machines import machine
    from cutaway_balance import advice, probe, sources, stack

    values: Any
    if args.what == "machine":
        found = probe.probe()
        values = dataclasses.asdict(found)
        lines = found.lines()
        if args.output:
            machine.save(found.machine(), args.output)
    elif args.what == "kernels":
        values, lines = stack.explain(args.trace, args.gpu)
    else:
        if args.timeout_us is None:
            timeout = None
        else:
            timeout = args.timeout_us * 1e-6
        source = sources.load(args.source, args.only, batch=args.batch, timeout=timeout)
        if args.machine:
            other = machine.load(args.machine)
        else:
            other = None
        answer = {
            "explain": advice.explain,
            "predict": advice.predict,
            "advise": advice.advise,
        }[args.what]
        values, lines = answer(source, other, args.actors)
    print(json.dumps(values) if args.json else "\n".join(_within_80_columns(lines)))
    return 0


def _within_80_columns(lines: Iterable[str]) -> list[str]:
    """Long lines go on in the next one, below where they began."""
    wrapped: list[str] = []
    for line in "\n".join(lines).split("\n"):
        begin = " " * (2 + len(line) - len(line.lstrip()))
        parts = textwrap.wrap(line, 79, drop_whitespace=False, subsequent_indent=begin)
        wrapped += [part.rstrip() for part in parts] or [""]
    return wrapped


def _measure(args: argparse.Namespace) -> int:
    from cutaway.machines import machine
    from cutaway_balance import grid, page
    from cutaway_balance import points as from_points
    from cutaway_balance.point import Measured, Plan
    from cutaway_balance.sources import Source

    if args.command[:1] == ["--"]:
        command = args.command[1:]
    else:
        command = args.command
    if not command:
        remedy = "write it after --, with {actors} where the number goes"
        raise CutawayError(f"There is no command to measure; {remedy}.")
    names = ("actors", "cpus", "sm_percent", "repeat", "metric", "seconds", "limit_by")
    plan = Plan(tuple(command), *(getattr(args, name) for name in names))
    start = time.monotonic()

    def tell(done: int, all_: int, point: Measured) -> None:
        left = (time.monotonic() - start) / done * (all_ - done)
        bar, doubt = (
            "#" * round(20 * done / all_),
            " (contaminated)" if point.contaminated else "",
        )
        rate = f"{point.setting.name}: {point.steps_per_s:,.0f} steps/s{doubt}"
        print(f"[{bar:20}] {done}/{all_} {rate}, {left:.0f} s left", file=sys.stderr)

    points = grid.run(plan, args.output, tell)
    rows = grid.table(points)
    print("\n".join(grid.lines(rows)))
    grid.write_parquet(rows, args.output / "grid.parquet")
    found = from_points.words(
        Source(rows, machine.load(str(args.output / grid.MACHINE)))
    )
    write_page(args.output / "grid.html", page.page(shlex.join(command), rows, found))
    print(
        f"wrote {args.output}/grid.parquet and grid.html\nnext: cutaway balance advise {args.output}"
    )
    failed = [p for p in points if p.exit != 0]
    for p in failed[:3]:
        print(f"cutaway: {p.setting.name}: {p.note}", file=sys.stderr)
    return int(len(failed) > 0)
