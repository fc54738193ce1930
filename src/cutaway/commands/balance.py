"""cutaway balance: sweep a program over the machine, explain, predict, advise; the GPU bottleneck stack."""

from __future__ import annotations

import argparse
import dataclasses
import json
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cutaway.errors import CutawayError

if TYPE_CHECKING:
    from cutaway.balance.machine import Machine
    from cutaway.balance.point import Measured
    from cutaway.balance.sources import Source
    from cutaway.balance.sweep import Row

HELP = "sweep over actors, CPUs and SMs; explain, predict and advise about the machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    sub = parser.add_subparsers(
        dest="what", required=True, metavar="sweep|explain|predict|advise|machine|kernels"
    )
    _sweep_arguments(sub.add_parser("sweep", help="measure a program over actors, CPUs and SM share"))
    for name, text in (
        ("explain", "bounds, what binds, what would help"),
        ("predict", "throughput at other numbers of actors or on another machine, with its error"),
        ("advise", "how many actors, which CPU/GPU ratio, what to buy next"),
    ):
        _model_arguments(sub.add_parser(name, help=text))
    probe = sub.add_parser("machine", help="measure this CPU: speed with all cores busy, what SMT yields")
    probe.add_argument("-o", "--output", type=Path, metavar="FILE.toml", help="write a machine file")
    probe.add_argument("--json", action="store_true")
    kernels = sub.add_parser("kernels", help="what GPU time is spent on: math, SM utilisation, DRAM, latency")
    kernels.add_argument(
        "trace",
        type=Path,
        metavar="RUN|TRACE",
        help="a run recorded with --device kineto --shapes or imported, or a Kineto trace with shapes (record_shapes=True)",
    )
    kernels.add_argument("--gpu", required=True, help="v100, a100, h100, b200, mi300x or a TOML file")
    kernels.add_argument("--json", action="store_true")


def _sweep_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--actors", type=_numbers, default=(), metavar="1,2,4", help="values for {actors} in the command"
    )
    parser.add_argument(
        "--cpus",
        type=_numbers,
        default=(),
        metavar="1,2",
        help="CPUs the program may use, physical cores first",
    )
    parser.add_argument(
        "--sm-percent", type=_numbers, default=(), metavar="100,50", help="share of the SMs (needs MPS)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs of each point (default 3)")
    parser.add_argument("--metric", metavar="REGEX", help="take the throughput from the program's output; group 1 is the rate, "
                        "a group named steps a running total. Without it the run is recorded and its steps are counted")  # fmt: skip
    parser.add_argument("--seconds", type=float, help="stop each run after so long")
    parser.add_argument(
        "--limit-by",
        choices=("affinity", "cgroup"),
        default="affinity",
        help="how CPUs are limited: a program can change its affinity, but not leave a control group",
    )
    parser.add_argument("-o", "--output", type=Path, default=Path("sweep"), metavar="FOLDER")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="-- command …")


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source", type=Path, nargs="+", metavar="SWEEP|RUN", help="folder of a sweep, or recorded runs"
    )
    parser.add_argument(
        "--actors", type=_numbers, default=(), metavar="8,16", help="numbers of actors to look at"
    )
    parser.add_argument("--machine", help="another machine: dgx1, dgx-a100, desktop or a TOML file")
    parser.add_argument(
        "--calibrate",
        type=_numbers,
        default=(),
        metavar="1,4",
        help="measure demands at these actor counts only",
    )
    parser.add_argument(
        "--batch", help="inference batch: seed or a number of environments (default: what the runs show)"
    )
    parser.add_argument("--timeout-us", type=float, help="dynamic batching: start after so long")
    parser.add_argument("--json", action="store_true")


def _numbers(text: str) -> tuple[int, ...]:
    try:
        values = tuple(int(v) for v in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,2,4") from None
    if min(values) < 1:
        raise argparse.ArgumentTypeError("numbers must be at least 1")
    return values


def run(args: argparse.Namespace) -> int:
    actions = {
        "sweep": _sweep,
        "explain": _explain,
        "predict": _predict,
        "advise": _advise,
        "machine": _machine,
        "kernels": _kernels,
    }
    return actions[args.what](args)


def _sweep(args: argparse.Namespace) -> int:
    from cutaway.balance import machine, page, sources, sweep

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise CutawayError(
            "There is no command to sweep: write it after --, with {actors} where the number goes."
        )
    plan = sweep.Plan(
        tuple(command),
        args.actors,
        args.cpus,
        args.sm_percent,
        args.repeat,
        args.metric,
        args.seconds,
        args.limit_by,
    )
    start = time.monotonic()

    def tell(done: int, all_: int, point: Measured) -> None:
        left = (time.monotonic() - start) / done * (all_ - done)
        bar = "#" * round(20 * done / all_)
        print(f"[{bar:20}] {done}/{all_} {point.setting.name}: {point.steps_per_s:,.0f} steps/s, {left:.0f} s left"
              + (" (contaminated)" if point.contaminated else ""), file=sys.stderr)  # fmt: skip

    points = sweep.run(plan, args.output, tell)
    rows = sweep.table(points)
    print("\n".join(_rows(rows)))
    sweep.write_parquet(rows, args.output / "sweep.parquet")
    whole = sources.Source(rows, None, machine.load(str(args.output / sweep.MACHINE)))
    (args.output / "sweep.html").write_text(page.page(shlex.join(command), rows, _curve_advice(whole)))
    print(f"wrote {args.output}/sweep.parquet and sweep.html\nnext: cutaway balance advise {args.output}")
    failed = [p for p in points if p.exit != 0]
    for p in failed[:3]:
        print(f"cutaway: {p.setting.name}: {p.note}", file=sys.stderr)
    return 1 if failed else 0


def _rows(rows: Sequence[Row]) -> list[str]:
    lines = ["actors  CPUs  SM %     steps/s   95 % interval          cores   steps/J"]
    for r in rows:
        limits = "".join(f"{'–' if v is None else v:>6}" for v in (r.actors, r.cpus, r.sm_percent))
        energy = "unavail." if r.steps_per_j is None else f"{r.steps_per_j:.2f}"
        lines.append(
            f"{limits} {r.steps_per_s:>11,.0f}   {r.low:>8,.0f} … {r.high:<10,.0f} {r.cpu_cores:5.2f}  {energy:>8}  {r.marks}"
        )
    return lines


def _source(args: argparse.Namespace) -> Source:
    from cutaway.balance import sources

    batch = None if args.batch is None else args.batch if args.batch == "seed" else _numbers(args.batch)[0]
    timeout = None if args.timeout_us is None else args.timeout_us * 1e-6
    return sources.load(args.source, args.calibrate, batch=batch, timeout=timeout)


def _machine_of(args: argparse.Namespace, source: Source) -> Machine:
    from cutaway.balance import machine

    return machine.load(args.machine) if args.machine else source.machine


def _explain(args: argparse.Namespace) -> int:
    from cutaway.balance import advice, bounds, simulation

    source = _source(args)
    if source.calibration is None:
        raise CutawayError(f"Explaining needs a recorded run, and there is none to use: {source.why_not}.")
    demands, machine = source.calibration.demands(), _machine_of(args, source)
    wanted = args.actors or (max(demands.measured_at),)
    if args.json:
        found = []
        for n in wanted:
            expected = simulation.predict(demands, machine, n)
            limits = bounds.bounds(demands, machine, n)
            used = bounds.utilisations(demands, machine, n, expected.steps_per_s)
            found.append({
                "actors": n, "steps_per_s": expected.steps_per_s, "binding": limits[0].resource, "utilisation": used,
                "bounds": {b.resource: b.steps_per_s for b in limits},
                "elasticities": {e.change: e.percent for e in advice.elasticities(demands, machine, n)},
                "ratio": machine.ratio, "wanted_ratio": bounds.wanted_ratio(demands, machine, n),
            })  # fmt: skip
        print(json.dumps({"demands": dataclasses.asdict(demands), "points": found}))
        return 0
    print("\n\n".join("\n".join(advice.explain(demands, machine, n)) for n in wanted))
    return 0


def _predict(args: argparse.Namespace) -> int:
    from cutaway.balance import advice, simulation

    source = _source(args)
    if source.calibration is None:
        fitted = source.curve()
        swept = [r.actors for r in source.rows if r.actors]
        print("\n".join(advice.predicted_from_curve(fitted, args.actors or (2 * max(swept),))))
        return 0
    demands, machine = source.calibration.demands(), _machine_of(args, source)
    predictions = [
        simulation.predict(demands, machine, n) for n in args.actors or (2 * max(demands.measured_at),)
    ]
    held = source.held_out()
    if args.json:
        errors = [{"actors": h.row.actors, "cpus": h.row.cpus, "measured": h.row.steps_per_s,
                   "predicted": h.predicted.steps_per_s, "error": h.error} for h in held]  # fmt: skip
        print(json.dumps({"points": [dataclasses.asdict(p) for p in predictions], "held_out": errors}))
        return 0
    lines = [*advice.predicted(predictions, machine), ""]
    if args.machine:
        lines.append(_speeds(machine))
    print("\n".join([*lines, *advice.errors(held), *(f"note: {n}" for n in demands.notes)]))
    return 0


def _speeds(machine: Machine) -> str:
    if machine.cpu_speed == machine.gpu_speed == 1.0:
        return "cores and device taken as fast as here (cpu_speed and gpu_speed in its file)"
    return (
        f"its cores are taken as {machine.cpu_speed:g} times as fast, its device {machine.gpu_speed:g} times"
    )


def _advise(args: argparse.Namespace) -> int:
    from cutaway.balance import advice

    source = _source(args)
    if source.calibration is None:
        lines = _curve_advice(source)
        if not lines:
            raise CutawayError("Advice needs at least two swept numbers of actors, or a recorded run.")
    else:
        demands, machine = source.calibration.demands(), _machine_of(args, source)
        current = args.actors[0] if args.actors else max(demands.measured_at)
        rows = [] if args.machine else source.rows
        lines = list(advice.advise(demands, machine, current, rows).lines)
        held = source.held_out()
        if held:
            lines.append(advice.errors(held)[-1].capitalize() + ".")
    print(json.dumps(lines) if args.json else "\n".join(lines))
    return 0


def _curve_advice(source: Source) -> list[str]:
    from cutaway.balance import advice

    swept = {r.actors for r in source.rows if r.actors and r.steps_per_s > 0}
    return advice.advise_from_curve(source.curve(), min(swept)) if len(swept) > 1 else []


def _machine(args: argparse.Namespace) -> int:
    from cutaway.balance import machine, probe

    found = probe.probe()
    if args.json:
        print(json.dumps(dataclasses.asdict(found)))
    else:
        print("\n".join(found.lines()))
    if args.output:
        machine.save(probe.machine(found), args.output)
    return 0


def _kernels(args: argparse.Namespace) -> int:
    from cutaway.balance import gpu, shapes, stack

    device = gpu.load(args.gpu)
    kernels = shapes.read(args.trace)
    if not kernels:
        raise CutawayError(
            f"{args.trace} has no kernels: record where the device works, with its activities."
        )
    whole = stack.stack(kernels, device)
    if args.json:
        print(
            json.dumps(
                {
                    "shares": whole.shares,
                    "coverage": whole.coverage,
                    "total_ns": whole.total_ns,
                    "gpu": device.name,
                }
            )
        )
        return 0
    print(
        f"{whole.total_ns / 1e6:.2f} ms of kernels on {device.name}; the work of {whole.coverage:.0%} of that time is known\n"
    )
    if not whole.covered_ns:
        print("No operator's shapes are known: record with `cutaway run --device kineto --shapes`.\n")
    for part, share in whole.shares.items():
        print(f"{part.replace('_', ' '):22} {share:6.1%}  {'█' * round(40 * share)}")
    print("\nkernel                                              ms  math    SM  latency  DRAM")
    for name, one in stack.by_name(kernels, device)[:12]:
        shares = one.shares
        values = (f"{shares[p]:5.0%}" for p in stack.PARTS) if one.covered_ns else ["  unknown work"]
        print(f"{name[:46]:46} {one.total_ns / 1e6:8.3f} {'  '.join(values)}")
    return 0
