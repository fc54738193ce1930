"""cutaway balance: measure a program over the machine, explain, predict, advise; the GPU bottleneck stack."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Sequence
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
TRACE = "a run recorded with --device kineto --shapes or imported, or a Kineto trace with shapes (record_shapes=True)"
METRIC = (
    "take the throughput from the program's output: group 1 is a rate, a group named steps is a running total "
    "(default: record the run and count its steps)"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(
        dest="what", required=True, metavar="measure|explain|predict|advise|machine|kernels"
    )
    measure = "run a program with different numbers of actors and CPUs, and shares of the SMs"
    explain = "show which resource limits throughput, and what more of it would gain"
    predict = "predict throughput for other numbers of actors or another machine"
    advise = "say how many actors to run, which CPU/GPU ratio you need and what to buy next"
    machine = "measure this CPU: all cores busy, SMT, waking up"
    kernels = "show what GPU time is spent on: math, SM utilisation, DRAM, latency"
    for name, text, arguments, action in (
        ("measure", measure, _measure_arguments, _measure),
        ("explain", explain, _model_arguments, _explain),
        ("predict", predict, _model_arguments, _predict),
        ("advise", advise, _model_arguments, _advise),
        ("machine", machine, _machine_arguments, _machine),
        ("kernels", kernels, _kernels_arguments, _kernels),
    ):
        verb = sub.add_parser(name, help=text, description=text)
        arguments(verb)
        verb.set_defaults(action=action)


def _machine_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.toml", help="write a machine file")
    parser.add_argument("--json", action="store_true", help="for scripts")


def _kernels_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", type=Path, metavar="RUN|TRACE", help=TRACE)
    parser.add_argument("--gpu", required=True, help="v100, a100, h100, b200, mi300x or a TOML file")
    parser.add_argument("--json", action="store_true", help="for scripts")


def _measure_arguments(parser: argparse.ArgumentParser) -> None:
    for option, example, text in (
        ("--actors", "1,2,4", "values for {actors} in the command"),
        ("--cpus", "1,2", "CPUs the program may use, physical cores first"),
        ("--sm-percent", "100,50", "percentage of the SMs (needs MPS)"),
    ):
        parser.add_argument(option, type=_numbers, default=(), metavar=example, help=text)
    parser.add_argument("--repeat", type=int, default=3, help="runs of each point (default 3)")
    parser.add_argument("--metric", metavar="REGEX", help=METRIC)
    parser.add_argument("--seconds", type=float, help="stop each run after this many seconds")
    how = "how to limit CPUs; a program can change its affinity, but cannot leave a control group"
    parser.add_argument("--limit-by", choices=("affinity", "cgroup"), default="affinity", help=how)
    where = "folder for the runs and the table (default: grid)"
    parser.add_argument("-o", "--output", type=Path, default=Path("grid"), metavar="FOLDER", help=where)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- command …", help="your program")


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    what = "folder made by `balance measure`, or recorded runs"
    parser.add_argument("source", type=Path, nargs="+", metavar="FOLDER|RUN", help=what)
    for option, name, example, text in (
        ("--actors", "actors", "8,16", "numbers of actors to answer for"),
        ("--from", "only", "1,4", "use only the runs with these numbers of actors"),
    ):
        parser.add_argument(option, dest=name, type=_numbers, default=(), metavar=example, help=text)
    parser.add_argument("--machine", help="another machine: dgx1, dgx-a100, desktop or a TOML file")
    batch = "inference batch: `seed` or a number of environments (default: as recorded)"
    parser.add_argument("--batch", help=batch)
    parser.add_argument("--timeout-us", type=float, help="dynamic batching: start a batch after this many µs")
    parser.add_argument("--json", action="store_true", help="for scripts")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        values = tuple(int(v) for v in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,4") from None
    if min(values) < 1:
        raise argparse.ArgumentTypeError("numbers must be at least 1")
    return values


def run(args: argparse.Namespace) -> int:
    code: int = args.action(args)
    return code


def _measure(args: argparse.Namespace) -> int:
    from cutaway.balance import grid, machine, page
    from cutaway.balance.point import Plan
    from cutaway.balance.sources import Source

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise CutawayError(
            "There is no command to measure; write it after --, with {actors} where the number goes."
        )
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


def _source(args: argparse.Namespace) -> Source:
    from cutaway.balance import sources

    batch = None if args.batch is None else args.batch if args.batch == "seed" else _numbers(args.batch)[0]
    timeout = None if args.timeout_us is None else args.timeout_us * 1e-6
    return sources.load(args.source, args.only, batch=batch, timeout=timeout)


def _models(args: argparse.Namespace, source: Source) -> tuple[Demands, Machine]:
    from cutaway.balance import machine

    return source.demands(), machine.load(args.machine) if args.machine else source.machine


def _explain(args: argparse.Namespace) -> int:
    from cutaway.balance import advice

    source = _source(args)
    if not source.seen:
        raise CutawayError(f"`explain` needs a recorded run: {source.why_not}.")
    demands, machine = _models(args, source)
    wanted = args.actors or (max(demands.measured_at),)
    if args.json:
        points = [_explained(demands, machine, n) for n in wanted]
        print(json.dumps({"demands": dataclasses.asdict(demands), "points": points}))
    else:
        print("\n\n".join("\n".join(advice.explain(demands, machine, n)) for n in wanted))
    return 0


def _explained(demands: Demands, machine: Machine, actors: int) -> dict[str, Any]:
    from cutaway.balance import advice, model

    expected = model.predict(demands, machine, actors)
    limits = model.bounds(demands, machine, actors)
    return {
        "actors": actors,
        "steps_per_s": expected.steps_per_s,
        "binding": limits[0].resource,
        "utilisation": model.utilisations(demands, machine, actors, expected.steps_per_s),
        "bounds": {b.resource: b.steps_per_s for b in limits},
        "elasticities": advice.elasticities(demands, machine, actors),
        "ratio": machine.ratio,
        "wanted_ratio": model.wanted_ratio(demands, machine, actors),
    }


def _predict(args: argparse.Namespace) -> int:
    from cutaway.balance import advice, model

    source = _source(args)
    if not source.seen:
        counts = args.actors or (2 * max(r.actors for r in source.rows if r.actors),)
        print("\n".join(advice.predicted_from_curve(source.curve(), counts)))
        return 0
    demands, machine = _models(args, source)
    counts = args.actors or (2 * max(demands.measured_at),)
    predictions = [model.predict(demands, machine, n) for n in counts]
    held = source.held_out()
    if args.json:
        errors = [
            {"actors": h.row.actors, "cpus": h.row.cpus, "measured": h.row.steps_per_s,
             "predicted": h.predicted.steps_per_s, "error": h.error} for h in held
        ]  # fmt: skip
        print(json.dumps({"points": [dataclasses.asdict(p) for p in predictions], "held_out": errors}))
        return 0
    lines = [*advice.predicted(predictions, machine), ""]
    if args.machine and machine.cpu_speed == machine.gpu_speed == 1.0:
        lines.append("assumes cores and device as fast as here (set cpu_speed and gpu_speed in its file)")
    elif args.machine:
        speeds = f"{machine.cpu_speed:g} times as fast, its device {machine.gpu_speed:g} times"
        lines.append(f"assumes its cores are {speeds}")
    print("\n".join([*lines, *advice.errors(held), *(f"note: {n}" for n in demands.notes)]))
    return 0


def _advise(args: argparse.Namespace) -> int:
    from cutaway.balance import advice

    source = _source(args)
    if source.seen:
        demands, machine = _models(args, source)
        current = args.actors[0] if args.actors else max(demands.measured_at)
        lines = advice.advise(demands, machine, current, [] if args.machine else source.rows)
        if held := source.held_out():
            lines.append(advice.errors(held)[-1].capitalize() + ".")
    elif not (lines := _curve_advice(source)):
        raise CutawayError("Advice needs at least two measured numbers of actors, or a recorded run.")
    print(json.dumps(lines) if args.json else "\n".join(lines))
    return 0


def _curve_advice(source: Source) -> list[str]:
    from cutaway.balance import advice

    counts = {r.actors for r in source.rows if r.actors and r.steps_per_s > 0}
    return advice.advise_from_curve(source.curve(), min(counts)) if len(counts) > 1 else []


def _machine(args: argparse.Namespace) -> int:
    from cutaway.balance import machine

    found = machine.probe()
    print(json.dumps(dataclasses.asdict(found)) if args.json else "\n".join(found.lines()))
    if args.output:
        machine.save(found.machine(), args.output)
    return 0


def _kernels(args: argparse.Namespace) -> int:
    from cutaway.balance import gpu

    device, kernels = gpu.load(args.gpu), gpu.read(args.trace)
    if not kernels:
        raise CutawayError(f"{args.trace} has no kernels; record while the device works.")
    whole = gpu.stack(kernels, device)
    if args.json:
        found = {"shares": whole.shares, "coverage": whole.coverage, "total_ns": whole.total_ns}
        print(json.dumps({**found, "gpu": device.name}))
        return 0
    known = f"the work of {whole.coverage:.0%} of that time is known"
    print(f"{whole.total_ns / 1e6:.2f} ms of kernels on {device.name}; {known}\n")
    if not whole.covered_ns:
        print("Operators have no shapes; record with `cutaway run --device kineto --shapes`.\n")
    for part, share in whole.shares.items():
        print(f"{part.replace('_', ' '):22} {share:6.1%}  {'█' * round(40 * share)}")
    print("\nkernel                                              ms  math    SM  latency  DRAM")
    for name, one in gpu.by_name(kernels, device)[:12]:
        values = [f"{one.shares[p]:5.0%}" for p in gpu.PARTS] if one.covered_ns else ["  unknown work"]
        print(f"{name[:46]:46} {one.total_ns / 1e6:8.3f} {'  '.join(values)}")
    return 0
