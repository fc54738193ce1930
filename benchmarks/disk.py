"""What the records of a run weigh, by part and by name, and how small they could be. `python -m benchmarks.disk`

Takes a recording of PPO CartPole (or any, `--run NAME.cutaway`) and prints

- bytes an event of each part: control byte, times, tags;
- a bound: the entropy of tags given the two before, of gaps given both tags around them, of durations given their tag. Times
  are put into classes a quarter of a power of two wide; a class costs its entropy, the place within it costs all its bits, since
  below that width the last digits of a time are noise. No packing that looks at the same contexts can be much smaller;
- how often each name occurs in a step, how long it takes, what it weighs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operations import PPO, _records, _steady_part
from benchmarks.overhead.disk import PROGRAM
from cutaway import _recorder
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind, numbers

Array = np.ndarray[Any, Any]
NAMED = (Kind.OP_ENTER, Kind.OP_EXIT)
KINDS = {number: name.lower() for name, number in numbers(Kind).items()}
CALLS = (Kind.CALL, Kind.ENTER, Kind.EXIT)


def entropy(symbols: Array) -> float:
    """Bits a symbol, by its own frequencies."""
    _, counts = np.unique(symbols, return_counts=True, axis=0)
    shares = counts / counts.sum()
    return float(-(shares * np.log2(shares)).sum())


def given(symbols: Array, context: Array) -> float:
    """Bits a symbol if the context is known: H(symbol, context) - H(context)."""
    return entropy(np.column_stack([symbols, context])) - entropy(context)


def time_bits(ticks: Array, context: Array, per_ns: float) -> float:
    """Bits a time, to the nanosecond: its class given the context, then its place in the class."""
    ns = np.maximum(ticks / per_ns, 0.0)
    classes = np.where(ns < 1, 0, 1 + np.floor(4 * np.log2(np.maximum(ns, 1)))).astype(
        np.int64
    )
    width = np.where(classes == 0, 1, 2.0 ** (classes / 4) - 2.0 ** ((classes - 1) / 4))
    return given(classes, context) + float(np.log2(np.maximum(width, 1)).mean())


def gaps(records: Array) -> Array:
    """Ticks between the end of a record and the next one, as the packing sees them."""
    times = records["time"].astype(np.int64)
    is_call = (records["tag"] & 0xFF) == Kind.CALL
    ends = times + np.where(is_call, records["value"], 0)
    return np.diff(times, prepend=times[0]) - np.concatenate([[0], (ends - times)[:-1]])


def packed_parts(records: Array) -> dict[str, float]:
    """Bytes an event: the control byte, what tags add to a stream whose times are all 0, the rest."""
    count = len(records)
    whole = len(_recorder.pack_records(records.tobytes()))
    still = records.copy()
    still["time"], still["value"] = 0, 0
    tags = (
        len(_recorder.pack_records(still.tobytes())) - 2 * count
    )  # a control byte and one for the times
    return {
        "control": 1.0,
        "times": (whole - count - tags) / count,
        "tags": tags / count,
        "all": whole / count,
    }


def bound(records: Array, per_ns: float) -> dict[str, float]:
    """Bits an event by part."""
    tags = records["tag"].astype(np.int64)
    before, earlier = np.roll(tags, 1), np.roll(tags, 2)
    return {
        "tags": given(tags, np.column_stack([before, earlier])),
        "gaps": time_bits(gaps(records), np.column_stack([before, tags]), per_ns),
        "durations": time_bits(records["value"], tags[:, None], per_ns),
    }


def print_inventory(
    log: Any, records: Array, steps: int, per_ns: float, rows: int
) -> None:
    """The names that make most events."""
    kinds, ids = records["tag"] & 0xFF, records["tag"] >> 8
    names: Counter[tuple[str, str]] = Counter()
    times: Counter[tuple[str, str]] = Counter()
    for kind, number, value in zip(
        kinds.tolist(), ids.tolist(), records["value"].tolist(), strict=True
    ):
        call = log.calls[number] if kind in CALLS else None
        shown = call.fn if call else log.name(number) if kind in NAMED else KINDS[kind]
        key = (call.layer if call else "mark", shown)
        names[key] += 1
        times[key] += value if kind == Kind.CALL else 0
    print(f"\n{'layer':10}{'name':44}{'a step':>8}{'mean us':>9}")
    for (layer, name), count in names.most_common(rows):
        print(
            f"{layer:10}{name[:43]:44}{count / steps:8.2f}{times[layer, name] / count / per_ns / 1000:9.2f}"
        )
    short = sum(
        n
        for key, n in names.items()
        if key[0] != "mark" and times[key] / n / per_ns < 400
    )
    print(
        f"names with a mean below 0.4 us make {short / steps:.2f} events a step of {len(records) / steps:.1f}"
    )


def report(run: Path, rows: int) -> None:
    (process,) = read_run(run).processes
    records = _steady_part(_records(process))
    first, last = process.log.anchors[0], process.log.anchors[-1]
    per_ns = (last.ticks - first.ticks) / (last.mono - first.mono)
    steps = int(records["value"][(records["tag"] & 0xFF) == Kind.STEP].sum())
    parts, least = packed_parts(records), bound(records, per_ns)
    print(
        f"{len(records)} events, {steps} steps, {len(records) / steps:.1f} events a step"
    )
    print(
        "bytes an event now:  "
        + ", ".join(f"{name} {value:.2f}" for name, value in parts.items())
    )
    total = sum(least.values()) / 8
    print(
        "bits an event, bound: "
        + ", ".join(f"{name} {value:.2f}" for name, value in least.items())
    )
    print(f"bound: {total:.2f} bytes an event")
    per_step = len(records) / steps
    print(
        f"a million steps: {parts['all'] * per_step:.0f} MB now, {total * per_step:.0f} MB at the bound"
    )
    print_inventory(process.log, records, steps, per_ns, rows)


def main() -> None:
    import subprocess
    import sys

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--run", type=Path, help="a recording of one process, instead of making one"
    )
    parser.add_argument("--steps", type=int, default=4096)
    parser.add_argument(
        "--default-ppo", action="store_true", help="rollouts of 512 steps, 10 epochs"
    )
    parser.add_argument("--rows", type=int, default=45)
    arguments = parser.parse_args()
    if arguments.run:
        report(arguments.run, arguments.rows)
        return
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "ppo.cutaway"
        program = (
            PPO.format(steps=arguments.steps) if arguments.default_ppo else PROGRAM
        )
        words = ["-c", program] + (
            [] if arguments.default_ppo else ["ppo", str(arguments.steps)]
        )
        command = [
            sys.executable,
            "-m",
            "cutaway",
            "run",
            "-q",
            "--calibrate-share",
            "0",
            "-o",
            str(run),
        ]
        root = Path(__file__).parents[1]
        subprocess.run([*command, sys.executable, *words], check=True, cwd=root)
        report(run, arguments.rows)


if __name__ == "__main__":
    main()
