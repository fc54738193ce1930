"""One point of a sweep: run the user's command under limits, and find out how fast it went."""

from __future__ import annotations

import codecs
import dataclasses
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from cutaway.balance import cgroup, limits
from cutaway.balance.family import Family
from cutaway.balance.steady import Steady, steady
from cutaway.errors import CutawayError

GRACE = 20.0  # seconds a program has to stop when asked


@dataclass(frozen=True)
class Setting:
    """What is varied. None: not limited."""

    actors: int | None = None
    cpus: int | None = None
    sm_percent: int | None = None
    repeat: int = 0

    @property
    def name(self) -> str:
        """A folder name.

        >>> Setting(actors=4, cpus=2).name
        'actors4-cpus2-r0'
        """
        parts = [
            f"{k}{v}"
            for k, v in (("actors", self.actors), ("cpus", self.cpus), ("sm", self.sm_percent))
            if v is not None
        ]
        return "-".join([*parts, f"r{self.repeat}"])


@dataclass(frozen=True)
class Measured:
    """What a point gave. Power and energy are None where no meter is available."""

    setting: Setting
    steps_per_s: float
    low: float
    high: float
    steady_from_s: float
    seconds: float
    exit: int
    foreign_cores: float
    contaminated: bool
    enough: bool
    cpu_cores: float
    gpu_w: float | None = None
    cpu_w: float | None = None
    note: str = ""


def command_for(template: list[str], setting: Setting) -> list[str]:
    """The user's command with {actors}, {cpus}, {sm_percent} and {repeat} filled in.

    >>> command_for(["train.py", "--n={actors}"], Setting(actors=3))
    ['train.py', '--n=3']
    """
    values = {k: v for k, v in dataclasses.asdict(setting).items() if v is not None}
    try:
        return [
            re.sub(r"\{(actors|cpus|sm_percent|repeat)\}", lambda m: str(values[m[1]]), word)
            for word in template
        ]
    except KeyError as error:
        raise CutawayError(
            f"The command uses {{{error.args[0]}}}, but --{error.args[0].replace('_', '-')} was not given."
        ) from error


def measure(
    template: list[str],
    setting: Setting,
    folder: Path,
    metric: str | None,
    timeout: float | None,
    limit_by: str = "affinity",
) -> Measured:
    """Runs the point and writes its output, its run and `point.json` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = command_for(template, setting)
    run = folder / "run.cutaway"
    if metric is None:
        command = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(run), *command]
    cpus = limits.choose_cpus(setting.cpus)
    environment = {**os.environ, **limits.sm_environment(setting.sm_percent), "PYTHONUNBUFFERED": "1"}
    by_group = setting.cpus is not None and limit_by == "cgroup"
    watch = _Watch()
    with (folder / "output.txt").open("w") as log, cgroup.group(cpus) if by_group else nullcontext() as join:
        lines, code = _run(command, environment, cpus, log, timeout, join)
        seconds, own, foreign = watch.stop()
    rate, note, seen = (_from_lines(lines, metric), "", None) if metric else _from_run(run)
    foreign = foreign if seen is None else seen
    if code != 0:
        said = next((line.strip() for _, line in reversed(lines) if line.strip()), "nothing")
        note = f"the program ended with exit code {code} and said {said[:160]!r}; see {folder / 'output.txt'}"
    power = _power(run) if metric is None else (None, None)
    result = Measured(
        setting, rate.rate, rate.low, rate.high, rate.start, seconds, code, foreign, foreign > 0.05 * len(cpus) + 0.05,
        rate.enough and code == 0, own / seconds, *power, note,
    )  # fmt: skip
    (folder / "point.json").write_text(json.dumps(dataclasses.asdict(result), indent=1) + "\n")
    return result


def load(path: Path) -> Measured:
    """A point measured before."""
    values: dict[str, Any] = json.loads(path.read_text())
    return Measured(**{**values, "setting": Setting(**values["setting"])})


def _run(
    command: list[str],
    environment: dict[str, str],
    cpus: frozenset[int],
    log: IO[str],
    timeout: float | None,
    join: Path | None,
) -> tuple[list[tuple[float, str]], int]:
    """Output lines with their time, and the exit code. After `timeout` seconds the program is asked to stop; that is no failure."""

    def confine() -> None:
        if join is not None:
            join.write_text("0")
        os.sched_setaffinity(0, cpus)

    try:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=confine
        )
    except OSError as error:
        raise CutawayError(f"{command[0]} cannot be started: {error.strerror}.") from error
    assert process.stdout is not None
    start, stopped = time.monotonic(), False
    lines: list[tuple[float, str]] = []
    tail = ""
    for chunk in _chunks(process.stdout.fileno()):
        elapsed = time.monotonic() - start
        *done, tail = (tail + chunk).replace("\r", "\n").split("\n")
        lines += [(elapsed, line) for line in done]
        log.write(chunk)
        if timeout is not None and elapsed > timeout:
            process.kill() if elapsed > timeout + GRACE else process.terminate() if not stopped else None
            stopped = True
    code = process.wait()
    return lines, 0 if stopped and code in (-signal.SIGTERM, 128 + signal.SIGTERM, 0) else code


def _chunks(fd: int) -> Iterator[str]:
    """What comes through a pipe, at least an empty string every tenth of a second, until its other end is closed."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    while True:
        if not select.select([fd], [], [], 0.1)[0]:
            yield ""
            continue
        chunk = os.read(fd, 1 << 16)
        if not chunk:
            return
        yield decoder.decode(chunk)


def _from_lines(lines: list[tuple[float, str]], metric: str | None) -> Steady:
    """Throughput from what the program prints: the captured number is a rate, or with a group named `steps` a running total."""
    pattern = re.compile(metric or "")
    if not pattern.groups:
        raise CutawayError(
            f"--metric {metric!r} captures nothing: put the number in parentheses, as in 'fps=([0-9.]+)'."
        )
    found = [(t, m) for t, line in lines if (m := pattern.search(line))]
    if "steps" in pattern.groupindex:
        times = np.array([t for t, _ in found])
        totals = np.array([_number(m["steps"]) for _, m in found])
        return steady(times, np.diff(totals, prepend=totals[:1])) if len(found) else steady(times, totals)
    rates = np.array([_number(m[1]) for _, m in found])
    if len(rates) == 0:
        return Steady(0.0, 0.0, 0.0, 0.0, 0.0, False)
    kept = rates[len(rates) // 3 :]
    half = 1.96 * float(np.std(kept)) / np.sqrt(len(kept))
    mean = float(np.mean(kept))
    return Steady(mean, mean - half, mean + half, found[len(rates) // 3][0], found[-1][0], len(kept) >= 3)


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError as error:
        raise CutawayError(f"--metric captured {text!r}, which is not a number.") from error


def _from_run(path: Path) -> tuple[Steady, str, float | None]:
    """Throughput from the recorded steps, what to say about it, and the cores that others used in the steady part."""
    from cutaway.balance.marks import foreign, merged_progress, read

    try:
        everything = read(path)
        times, amounts, unit = merged_progress(everything, path)
    except CutawayError as error:
        return Steady(0.0, 0.0, 0.0, 0.0, 0.0, False), str(error), None
    found = steady(times, amounts)
    shifted = dataclasses.replace(found, start=found.start - times[0], end=found.end - times[0])
    return shifted, "" if unit == "steps" else f"counted in {unit}", foreign(everything, found)


def _power(path: Path) -> tuple[float | None, float | None]:
    from cutaway.balance.marks import power

    return power(path)


class _Watch:
    """CPU time of the machine and of our children over a stretch: what others used is foreign."""

    def __init__(self) -> None:
        self._family = Family()
        self._start, self._busy = time.monotonic(), _machine_busy()

    def stop(self) -> tuple[float, float, float]:
        """Seconds, CPU seconds of our children, foreign cores."""
        seconds, busy = max(1e-9, time.monotonic() - self._start), _machine_busy() - self._busy
        own = self._family.gather()
        return seconds, own, max(0.0, (busy - own) / seconds)


def _machine_busy() -> float:
    fields = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle = fields[3] + fields[4]
    return (sum(fields[:8]) - idle) / os.sysconf("SC_CLK_TCK")
