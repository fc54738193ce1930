"""One point of a grid: run the user's command under limits, and find out how fast it went."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from cutaway.errors import CutawayError
from cutaway.trace.reader import read_run
from cutaway_balance import limits, observe
from cutaway_balance.observe import Steady, steady

GRACE = 20.0  # seconds a program has to stop when asked
PATIENCE = 3.0  # seconds that its orphans get to leave by themselves
PR_SET_CHILD_SUBREAPER = 36
Lines = list[tuple[float, str]]  # what a program printed, and after how many seconds


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
        varied = (
            ("actors", self.actors),
            ("cpus", self.cpus),
            ("sm", self.sm_percent),
            ("r", self.repeat),
        )
        return "-".join(f"{k}{v}" for k, v in varied if v is not None)


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


@dataclass(frozen=True)
class Plan:
    """What to measure. Empty sequences: not varied."""

    command: tuple[str, ...]
    actors: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()
    sm_percent: tuple[int, ...] = ()
    repeat: int = 3
    metric: str | None = None
    seconds: float | None = None
    limit_by: str = "affinity"

    def command_for(self, setting: Setting) -> list[str]:
        """The user's command with {actors}, {cpus}, {sm_percent} and {repeat} filled in.

        >>> Plan(("train.py", "--n={actors}")).command_for(Setting(actors=3))
        ['train.py', '--n=3']
        """

        def value(match: re.Match[str]) -> str:
            found = getattr(setting, match[1])
            if found is None:
                option = match[1].replace("_", "-")
                raise CutawayError(
                    f"The command uses {match[0]}, but --{option} was not given."
                )
            return str(found)

        return [
            re.sub(r"\{(actors|cpus|sm_percent|repeat)\}", value, word)
            for word in self.command
        ]


def measure(plan: Plan, setting: Setting, folder: Path) -> Measured:
    """Runs the point and writes its output, its run and `point.json` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = plan.command_for(setting)
    run = folder / "run.cutaway"
    output = folder / "output.txt"
    if plan.metric is None:
        command = [
            sys.executable,
            "-m",
            "cutaway",
            "run",
            "-q",
            "-o",
            str(run),
            *command,
        ]
    cpus = limits.choose_cpus(setting.cpus)
    environment = {
        **os.environ,
        **limits.sm_environment(setting.sm_percent),
        "PYTHONUNBUFFERED": "1",
    }
    by_group = setting.cpus is not None and plan.limit_by == "cgroup"
    family = Family()
    with (
        output.open("w") as log,
        limits.group(cpus) if by_group else contextlib.nullcontext() as join,
    ):

        def confine() -> None:
            if join is not None:
                join.write_text("0")
            os.sched_setaffinity(0, cpus)

        lines, code = _run(
            command, log, plan.seconds, env=environment, preexec_fn=confine
        )
        seconds, own, foreign = family.gather()
    if plan.metric is None:
        rate, note, foreign, power = _from_run(run, foreign)
    else:
        rate = _from_lines(lines, plan.metric)
        note = ""
        power = (None, None)
    if code != 0:
        said = next(
            (line.strip() for _, line in reversed(lines) if line.strip()), "nothing"
        )
        note = f"the program ended with exit code {code} and printed {said[:160]!r}; see {output}"
    contaminated = foreign > 0.05 * len(cpus) + 0.05
    enough = rate.enough and code == 0
    result = Measured(
        setting,
        rate.rate,
        rate.low,
        rate.high,
        rate.start,
        seconds,
        code,
        foreign,
        contaminated,
        enough,
        own / seconds,
        *power,
        note,
    )
    (folder / "point.json").write_text(json.dumps(asdict(result), indent=1) + "\n")
    return result


def load(path: Path) -> Measured:
    """A point measured before."""
    values: dict[str, Any] = json.loads(path.read_text())
    return Measured(**{**values, "setting": Setting(**values["setting"])})


def _run(
    command: list[str], log: IO[str], timeout: float | None, **options: Any
) -> tuple[Lines, int]:
    """Output lines with their time, and the exit code. After `timeout` seconds the program is asked to stop; that is no failure."""
    options |= {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    try:
        process = subprocess.Popen(
            command, encoding="utf-8", errors="replace", **options
        )
    except OSError as error:
        raise CutawayError(
            f"{command[0]} cannot be started: {error.strerror}."
        ) from error
    start = time.monotonic()
    lines = Lines()
    timers = []
    if timeout is not None:
        timers = [
            threading.Timer(timeout, process.terminate),
            threading.Timer(timeout + GRACE, process.kill),
        ]
    for timer in timers:
        timer.daemon = True
        timer.start()
    for line in process.stdout or ():
        lines.append((time.monotonic() - start, line))
        log.write(line)
    code: int = process.wait()
    for timer in timers:
        timer.cancel()
    stopped = timeout is not None and time.monotonic() - start > timeout
    return lines, 0 if stopped and code in (
        -signal.SIGTERM,
        128 + signal.SIGTERM,
    ) else code


def metric_pattern(metric: str) -> re.Pattern[str]:
    """The user's regular expression, which must capture the number."""
    try:
        pattern = re.compile(metric)
    except re.error as error:
        raise CutawayError(
            f"--metric {metric!r} is not a regular expression: {error}."
        ) from error
    if not pattern.groups:
        remedy = "put the number in parentheses, as in 'fps=([0-9.]+)'"
        raise CutawayError(f"--metric {metric!r} captures nothing: {remedy}.")
    return pattern


def _from_lines(lines: Lines, metric: str) -> Steady:
    """Throughput from what the program prints: the captured number is a rate, or with a group named `steps` a running total."""
    pattern = metric_pattern(metric)
    group: str | int = "steps" if "steps" in pattern.groupindex else 1
    found = [(t, match[group]) for t, line in lines if (match := pattern.search(line))]
    if not found:
        return Steady()
    times = np.array([t for t, _ in found])
    values = np.array([_number(text) for _, text in found])
    if group == "steps":
        return steady(times, np.diff(values, prepend=values[:1]))
    first = len(values) // 3
    kept = values[first:]
    mean = float(np.mean(kept))
    half = 1.96 * float(np.std(kept)) / np.sqrt(len(kept))
    return Steady(
        mean, mean - half, mean + half, times[first], times[-1], len(kept) >= 3
    )


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError as error:
        raise CutawayError(
            f"--metric captured {text!r}, which is not a number."
        ) from error


def _from_run(
    path: Path, foreign: float
) -> tuple[Steady, str, float, tuple[float | None, float | None]]:
    """Throughput from the recorded steps, what to say about it, the cores that others used in the steady part, and the power."""
    try:
        trace = read_run(path)
        everything = observe.read(trace)
        times, amounts, unit = observe.progress(everything, path)
    except CutawayError as error:
        return Steady(), str(error), foreign, (None, None)
    found = steady(times, amounts)
    shifted = replace(found, start=found.start - times[0], end=found.end - times[0])
    if unit == "steps":
        note = ""
    else:
        note = f"counted in {unit}"
    return shifted, note, observe.foreign(everything, found), observe.power(trace)


class Family:
    """The processes of a measured program, children's children included, from its creation until `gather`.

    Meanwhile orphans come to us instead of to init: a fork server or daemon that outlives its parent is waited for, and what it used
    counts as the program's, not as that of strangers.
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._before, self._clocks = _children(), _clocks()

    def gather(self) -> tuple[float, float, float]:
        """Waits for the orphans and ends those that stay. Seconds, CPU seconds of the family, cores' worth that others used."""
        start = time.monotonic()
        while orphans := _children() - self._before:
            late = time.monotonic() - start > PATIENCE
            for pid in orphans:
                with contextlib.suppress(ChildProcessError, ProcessLookupError):
                    if late:
                        os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0 if late else os.WNOHANG)
            time.sleep(0.01)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        seconds, own, busy = (
            now - then for now, then in zip(_clocks(), self._clocks, strict=True)
        )
        seconds = max(1e-9, seconds)
        return seconds, own, max(0.0, (busy - own) / seconds)


def _children() -> set[int]:
    me = str(os.getpid())
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rsplit(")", 1)[1].split()[1] == me:
                found.add(int(stat.parent.name))
    return found


def _clocks() -> tuple[float, float, float]:
    """Now, CPU seconds of the children we have waited for, busy seconds of all CPUs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    fields = [
        int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    ]
    busy = (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
    return time.monotonic(), usage.ru_utime + usage.ru_stime, busy
