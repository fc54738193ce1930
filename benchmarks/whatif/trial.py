"""One pair: recorded before, predicted from that, then made and measured in turn."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import cutaway
from benchmarks.whatif.pairs import Pair
from benchmarks.whatif.table import Tried
from cutaway.analysis.whatif.changes import Change, Faster
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.analysis.whatif.sizes import Second
from cutaway.analysis.whatif.words import parse
from cutaway.errors import CutawayError

_LONGEST = 300  # seconds


class Failed(Exception):
    """A program did not end well."""


@dataclass
class Lab:
    """Where programs run, for how long each, and what is told when one has ended."""

    folder: Path
    seconds: float
    rounds: int
    tell: Callable[[str], None]
    cpu: bool = False  # compare steps for each CPU second of the main process


@dataclass(frozen=True)
class Measured:
    """Throughput after ÷ before in each round, and how many cores other programs used."""

    ratios: list[float]
    foreign: float

    @property
    def middle(self) -> tuple[float, float]:
        """The median, and half of the distance between the quartiles."""
        low, middle, high = np.percentile(self.ratios, [25, 50, 75])
        return float(middle), float(high - low) / 2


def command(
    pair: Pair, settings: Mapping[str, int], seconds: float
) -> tuple[list[str], list[str]]:
    """What limits the cores, and what runs the program after the interpreter."""
    own = {key: value for key, value in settings.items() if key != "cpus"}
    cores = sorted(os.sched_getaffinity(0))[: settings.get("cpus", os.cpu_count() or 1)]
    limit = ["taskset", "-c", ",".join(map(str, cores))]
    words = [f"{key}={value}" for key, value in own.items()]
    module = ["-m", "benchmarks.whatif.programs"]
    return limit, [*module, pair.program, str(seconds), *words]


def record(lab: Lab, pair: Pair, settings: Mapping[str, int]) -> Path:
    """The run before the change, recorded; a recording that is there already is used."""
    words = [f"{key}{value}" for key, value in settings.items()]
    out = lab.folder / f"{'-'.join([pair.program, *words])}.cutaway"
    if out.is_dir():
        return out
    if not lab.rounds:
        raise Failed(f"there is no recording {out.stem}")
    limit, rest = command(pair, settings, lab.seconds)
    recorder = [*limit, sys.executable, "-m", "cutaway", "run", "-q"]
    options = ["--simulator", "zlib", "--calibrate-share", "0", "-o", str(out)]
    done = _ran([*recorder, *options, *rest], {**os.environ})
    lab.tell(f"recorded {out.stem}")
    if done.returncode:
        raise Failed(f"{out.stem} ended with {done.returncode}: {done.stderr}")
    return out


def _ran(
    command: list[str], environment: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command)} did not end within {_LONGEST} s") from None


def predict(lab: Lab, pair: Pair) -> Tried:
    """What is said before the change is made."""
    run = cutaway.open(record(lab, pair, pair.before))
    second = _second(lab, pair)
    words = " ".join(pair.words)
    error, amdahl = None, None
    try:
        known = WhatIf(run)
        error = known.error
        changes = [change for word in pair.words for change in parse(word)]
        amdahl = by_amdahl(known, changes)
        found = known.predict(changes, words, second)
    except CutawayError as refused:
        return Tried(pair.name, words, None, None, None, None, 0.0, amdahl, error, str(refused))  # fmt: skip
    done = found.work * found.before
    high = done / found.low if found.low else math.inf
    low = done / found.high
    assumed = "; ".join(found.assumes)
    return Tried(pair.name, words, found.speedup, low, high, None, 0.0, amdahl, error, assumed)  # fmt: skip


def _second(lab: Lab, pair: Pair) -> Second | None:
    """Another recording, of a size that is neither that before nor that after."""
    if not pair.second:
        return None
    ((name, other),) = pair.second.items()
    run = record(lab, pair, {**pair.before, **pair.second})
    return Second(cutaway.open(run), pair.before[name], other)


def by_amdahl(known: WhatIf, changes: Iterable[Change]) -> float | None:
    """The main thread's share of what changes, waiting for it included, sped up; None: Amdahl has no word for the change."""
    share, times = 0.0, 1.0
    for change in changes:
        if not isinstance(change, Faster):
            return None
        table = known.run.breakdown()
        own = table.where(process=known.graph.threads[known.graph.leader].process)
        meant = {"update": ["backpropagation"]}.get(change.name, [change.name])
        total = float(own["ns"].sum())
        named = np.isin(own["operation"].astype(str), meant)
        named |= np.isin(own["layer"].astype(str), meant)
        share, times = float(own["ns"][named].sum()) / total, change.times
    return 1 / (1 - share + share / times)


def measure(lab: Lab, pairs: list[Pair]) -> dict[str, Measured]:
    """All rounds of pairs that begin alike: before, then each change, and the other way round in every second round."""
    ratios: dict[str, list[float]] = {pair.name: [] for pair in pairs}
    foreign = []
    for number in range(lab.rounds):
        rates: dict[str, float] = {}
        turn: list[tuple[str, Pair, Mapping[str, int]]] = [
            ("before", pairs[0], pairs[0].before)
        ]
        turn += [(pair.name, pair, {**pair.before, **pair.after}) for pair in pairs]
        for name, pair, settings in turn if number % 2 == 0 else turn[::-1]:
            rates[name], others = rate(lab, pair, settings)
            foreign.append(others)
            lab.tell(f"round {number + 1}: {name}")
        for pair in pairs:
            ratios[pair.name].append(rates[pair.name] / rates["before"])
    others = float(np.median(foreign)) if foreign else 0.0
    return {name: Measured(found, others) for name, found in ratios.items()}


def rate(lab: Lab, pair: Pair, settings: Mapping[str, int]) -> tuple[float, float]:
    """Steps a second of one run, and cores that others used meanwhile."""
    limit, rest = command(pair, settings, lab.seconds)
    environment = {key: value for key, value in os.environ.items() if key != "CUTAWAY"}
    before = _clocks()
    done = _ran([*limit, sys.executable, *rest], environment)
    if done.returncode:
        raise Failed(f"{' '.join(rest)} ended with {done.returncode}: {done.stderr}")
    seconds, machine, own = np.subtract(_clocks(), before)
    rates = json.loads(done.stdout.splitlines()[-1])
    found = float(rates["cpu_rate" if lab.cpu else "rate"])
    return found, max(0.0, float((machine - own) / seconds))


def _clocks() -> tuple[float, float, float]:
    """Now, CPU seconds of everybody, and of this process and of children that have ended."""
    line = Path("/proc/stat").read_text(encoding="ascii").partition("\n")[0]
    user, nice, system = map(int, line.split()[1:4])
    times = os.times()
    everybody = (user + nice + system) / os.sysconf("SC_CLK_TCK")
    own = times.user + times.system + times.children_user + times.children_system
    return time.monotonic(), everybody, own
