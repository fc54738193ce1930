"""cutaway balance: measure a program over the machine, explain, predict, advise; the GPU bottleneck stack."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.balance.demands import Demands
    from cutaway.balance.grid import Row
    from cutaway.balance.machine import Machine
    from cutaway.balance.point import Measured
    from cutaway.balance.sources import Source

HELP = "find out how many actors, CPUs and SMs to use"
VERBS = {
    "measure": "run a program with different numbers of actors and CPUs, and shares of the SMs",
    "explain": "show which resource limits throughput, and what more of it would gain",
    "predict": "predict throughput for other numbers of actors or another machine",
    "advise": "say how many actors to run, which CPU/GPU ratio you need and what to buy next",
    "machine": "measure this CPU: all cores busy, SMT, waking up",
    "kernels": "show what GPU time is spent on: math, SM utilisation, DRAM, latency",
}
TRACE = "a run recorded with --device kineto --shapes or imported, or a Kineto trace with shapes (record_shapes=True)"
METRIC = (
    "take the throughput from the program's output: group 1 is a rate, a group named steps is a running total "
    "(default: record the run and count its steps)"
)
LIMIT_BY = "how to limit CPUs; a program can change its affinity, but cannot leave a control group"
Answer = tuple[Any, list[str]]  # for scripts, and lines for people


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(dest="what", required=True, metavar="|".join(VERBS))
    verbs = {name: sub.add_parser(name, help=text, description=text) for name, text in VERBS.items()}

    def numbers(parser: argparse.ArgumentParser, option: str, example: str, text: str, **more: Any) -> None:
        parser.add_argument(option, type=_numbers, default=(), metavar=example, help=text, **more)

    add = verbs["measure"].add_argument
    numbers(verbs["measure"], "--actors", "1,2,4", "values for {actors} in the command")
    numbers(verbs["measure"], "--cpus", "1,2", "CPUs the program may use, physical cores first")
    numbers(verbs["measure"], "--sm-percent", "100,50", "percentage of the SMs (needs MPS)")
    add("--repeat", type=int, default=3, help="runs of each point (default 3)")
    add("--metric", metavar="REGEX", help=METRIC)
    add("--seconds", type=float, help="stop each run after this many seconds")
    add("--limit-by", choices=("affinity", "cgroup"), default="affinity", help=LIMIT_BY)
    where = "folder for the runs and the table (default: grid)"
    add("-o", "--output", type=Path, default=Path("grid"), metavar="FOLDER", help=where)
    add("command", nargs=argparse.REMAINDER, metavar="-- command …", help="your program")
    for name in ("explain", "predict", "advise"):
        add = verbs[name].add_argument
        what = "folder made by `balance measure`, or recorded runs"
        add("source", type=Path, nargs="+", metavar="FOLDER|RUN", help=what)
        numbers(verbs[name], "--actors", "8,16", "numbers of actors to answer for")
        numbers(verbs[name], "--from", "1,4", "use only the runs with these numbers of actors", dest="only")
        add("--machine", help="another machine: dgx1, dgx-a100, desktop or a TOML file")
        batch = "inference batch: `seed` or a number of environments (default: as recorded)"
        add("--batch", type=_batch, help=batch)
        add("--timeout-us", type=float, help="dynamic batching: start a batch after this many µs")
    add = verbs["machine"].add_argument
    add("-o", "--output", type=Path, metavar="FILE.toml", help="write a machine file")
    add = verbs["kernels"].add_argument
    add("trace", type=Path, metavar="RUN|TRACE", help=TRACE)
    add("--gpu", required=True, help="v100, a100, h100, b200, mi300x or a TOML file")
    for name in VERBS.keys() - {"measure"}:
        verbs[name].add_argument("--json", action="store_true", help="for scripts")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        values = tuple(int(v) for v in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,4") from None
    if min(values) < 1:
        raise argparse.ArgumentTypeError("numbers must be at least 1")
    return values


def _batch(text: str) -> int | str:
    return text if text == "seed" else _numbers(text)[0]


def run(args: argparse.Namespace) -> int:
    if args.what == "measure":
        return _measure(args)
    answers = {
        "explain": _explain,
        "predict": _predict,
        "advise": _advise,
        "machine": _machine,
        "kernels": _kernels,
    }
    values, lines = answers[args.what](args)
    print(json.dumps(values) if args.json and values is not None else "\n".join(lines))
    return 0


def _measure(args: argparse.Namespace) -> int:
    from cutaway.balance import grid, machine, page
    from cutaway.balance.point import Plan
    from cutaway.balance.sources import Source

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        remedy = "write it after --, with {actors} where the number goes"
        raise CutawayError(f"There is no command to measure; {remedy}.")
    names = ("actors", "cpus", "sm_percent", "repeat", "metric", "seconds", "limit_by")
    plan = Plan(tuple(command), *(getattr(args, name) for name in names))
    start = time.monotonic()

    def tell(done: int, all_: int, point: Measured) -> None:
        left = (time.monotonic() - start) / done * (all_ - done)
        bar, doubt = "#" * round(20 * done / all_), " (contaminated)" if point.contaminated else ""
        rate = f"{point.setting.name}: {point.steps_per_s:,.0f} steps/s{doubt}"
        print(f"[{bar:20}] {done}/{all_} {rate}, {left:.0f} s left", file=sys.stderr)

    points = grid.run(plan, args.output, tell)
    rows = grid.table(points)
    print("\n".join(_rows(rows)))
    grid.write_parquet(rows, args.output / "grid.parquet")
    whole = Source(rows, [], machine.load(str(args.output / grid.MACHINE)))
    (args.output / "grid.html").write_text(page.page(shlex.join(command), rows, _curve_advice(whole)))
    print(f"wrote {args.output}/grid.parquet and grid.html\nnext: cutaway balance advise {args.output}")
    failed = [p for p in points if p.exit != 0]
    for p in failed[:3]:
        print(f"cutaway: {p.setting.name}: {p.note}", file=sys.stderr)
    return 1 if failed else 0


def _rows(rows: Sequence[Row]) -> list[str]:
    lines = ["actors  CPUs  SM %     steps/s   95 % interval          cores   steps/J"]
    for r in rows:
        limits = "".join(f"{'–' if v is None else v:>6}" for v in (r.actors, r.cpus, r.sm_percent))
        energy = "unavail." if r.steps_per_j is None else f"{r.steps_per_j:.2f}"
        rate = f"{r.steps_per_s:>11,.0f}   {r.low:>8,.0f} … {r.high:<10,.0f}"
        lines.append(f"{limits} {rate} {r.cpu_cores:5.2f}  {energy:>8}  {r.marks}")
    return lines


def _source(args: argparse.Namespace) -> tuple[Source, Demands | None, Machine]:
    """What is given, the demands if there are recorded runs, and the machine to answer for."""
    from cutaway.balance import machine, sources

    timeout = None if args.timeout_us is None else args.timeout_us * 1e-6
    source = sources.load(args.source, args.only, batch=args.batch, timeout=timeout)
    demands = source.demands() if source.seen else None
    return source, demands, machine.load(args.machine) if args.machine and demands else source.machine


def _explain(args: argparse.Namespace) -> Answer:
    from cutaway.balance import advice

    source, demands, machine = _source(args)
    if demands is None:
        raise CutawayError(f"`explain` needs a recorded run: {source.why_not}.")
    counts = args.actors or (max(demands.measured_at),)
    points, texts = zip(*(advice.explain(demands, machine, n) for n in counts), strict=True)
    return {"demands": asdict(demands), "points": points}, ["\n\n".join("\n".join(text) for text in texts)]


def _predict(args: argparse.Namespace) -> Answer:
    from cutaway.balance import advice, model

    source, demands, machine = _source(args)
    if demands is None:
        counts = args.actors or (2 * max(r.actors for r in source.rows if r.actors),)
        return None, advice.predicted_from_curve(source.curve(), counts)
    counts = args.actors or (2 * max(demands.measured_at),)
    predictions = [model.predict(demands, machine, n) for n in counts]
    held = source.held_out()
    errors = [
        {"actors": h.row.actors, "cpus": h.row.cpus, "measured": h.row.steps_per_s,
         "predicted": h.predicted.steps_per_s, "error": h.error} for h in held
    ]  # fmt: skip
    lines = [*advice.predicted(predictions, machine), ""]
    if args.machine and machine.cpu_speed == machine.gpu_speed == 1.0:
        lines.append("assumes cores and device as fast as here (set cpu_speed and gpu_speed in its file)")
    elif args.machine:
        speeds = f"{machine.cpu_speed:g} times as fast, its device {machine.gpu_speed:g} times"
        lines.append(f"assumes its cores are {speeds}")
    lines += [*advice.errors(held), *(f"note: {n}" for n in demands.notes)]
    return {"points": [asdict(p) for p in predictions], "held_out": errors}, lines


def _advise(args: argparse.Namespace) -> Answer:
    from cutaway.balance import advice

    source, demands, machine = _source(args)
    if demands is not None:
        current = args.actors[0] if args.actors else max(demands.measured_at)
        lines = advice.advise(demands, machine, current, [] if args.machine else source.rows)
        if held := source.held_out():
            lines.append(advice.errors(held)[-1].capitalize() + ".")
    elif not (lines := _curve_advice(source)):
        raise CutawayError("Advice needs at least two measured numbers of actors, or a recorded run.")
    return lines, lines


def _curve_advice(source: Source) -> list[str]:
    from cutaway.balance import advice

    counts = {r.actors for r in source.rows if r.actors and r.steps_per_s > 0}
    return advice.advise_from_curve(source.curve(), min(counts)) if len(counts) > 1 else []


def _machine(args: argparse.Namespace) -> Answer:
    from cutaway.balance import machine

    found = machine.probe()
    if args.output:
        machine.save(found.machine(), args.output)
    return asdict(found), found.lines()


def _kernels(args: argparse.Namespace) -> Answer:
    from cutaway.balance import gpu

    device, kernels = gpu.load(args.gpu), gpu.read(args.trace)
    if not kernels:
        raise CutawayError(f"{args.trace} has no kernels; record while the device works.")
    whole = gpu.stack(kernels, device)
    known = f"the work of {whole.coverage:.0%} of that time is known"
    lines = [f"{whole.total_ns / 1e6:.2f} ms of kernels on {device.name}; {known}", ""]
    if not whole.covered_ns:
        lines += ["Operators have no shapes; record with `cutaway run --device kineto --shapes`.", ""]
    for part, share in whole.shares.items():
        lines.append(f"{part.replace('_', ' '):22} {share:6.1%}  {'█' * round(40 * share)}")
    lines += ["", "kernel                                              ms  math    SM  latency  DRAM"]
    for name, one in gpu.by_name(kernels, device)[:12]:
        values = [f"{one.shares[p]:5.0%}" for p in gpu.PARTS] if one.covered_ns else ["  unknown work"]
        lines.append(f"{name[:46]:46} {one.total_ns / 1e6:8.3f} {'  '.join(values)}")
    found = {"shares": whole.shares, "coverage": whole.coverage, "total_ns": whole.total_ns}
    return {**found, "gpu": device.name}, lines
