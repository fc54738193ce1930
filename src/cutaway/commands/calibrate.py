"""cutaway calibrate: what recording costs on this machine; with a program behind --, how true the corrected figures are for it."""

from __future__ import annotations

import argparse
import json
import sys

from cutaway.commands import need_recorder

# Done by the recorder's own thread: nobody waits for it, and nothing is subtracted.
BESIDE = {
    "meter_tick": "in the background, one sample of the meters",
    "compaction": "in the background, packing an event",
}
HELP = "measure what recording costs here; with `-- train.py`, the true error of the correction"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.usage = "cutaway calibrate [--quick] [--json] [-- train.py [args …]]"
    add("--quick", action="store_true", help="three seconds instead of half a minute")
    add(
        "--pairs",
        type=int,
        default=5,
        help="runs with and without recording (default 5)",
    )
    add("--json", action="store_true", help="for scripts")
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> None:
    need_recorder()
    if args.program[:1] == ["--"]:
        command = args.program[1:]
    else:
        command = args.program
    if not command:
        _measure(args)
        return
    from cutaway.calibration import selfcheck

    def tell(done: int, total: int) -> None:
        bar = f"\r[{'#' * round(20 * done / total):20}] {done}/{total} runs"
        print(bar, end="" if done < total else "\n", file=sys.stderr)

    result = selfcheck.check(command, args.pairs, tell)
    print(json.dumps(result.to_json()) if args.json else "\n".join(result.lines()))


def _measure(args: argparse.Namespace) -> None:
    """What an event costs on this machine."""
    from cutaway.calibration import prior
    from cutaway.reports.text import duration

    found = prior.ensure(lambda text: None, quick=args.quick, again=True)
    if args.json:
        print(json.dumps(found.to_json()))
        return
    if found is prior.FALLBACK:
        print("The benchmark could not run here, so Cutaway uses typical figures.")
    print(
        "what one event adds, in ns   hot loop (95 %)     cold caches (95 %)   inside"
    )
    for name, k in sorted(found.kinds.items(), key=lambda kind: kind[0] in BESIDE):
        if name in BESIDE:
            print(
                f"{BESIDE[name]}: {duration(k.hot.ns)} ({duration(k.hot.low)} … {duration(k.hot.high)})"
            )
        else:
            hot, cold = (
                f"{m.ns:6.0f} ({m.low:.0f} … {m.high:.0f})" for m in (k.hot, k.cold)
            )
            print(f"{name.replace('_', ' '):24} {hot:20} {cold:22} {k.inside:6.0f}")
    print(f"kept in {prior.cache_path()} until the machine, Python or Cutaway changes")
