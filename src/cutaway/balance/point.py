"""One point of a grid: run the user's command under limits, and find out how fast it went."""

from __future__ import annotations

import codecs
import contextlib
import ctypes
import dataclasses
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from cutaway.balance import limits, observe
from cutaway.balance.observe import Steady, steady
from cutaway.errors import CutawayError
from cutaway.trace.reader import read_run

GRACE = 20.0  # seconds a program has to stop when asked
PATIENCE = 3.0  # seconds that its orphans get to leave by themselves
PR_SET_CHILD_SUBREAPER = 36


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
        varied = (("actors", self.actors), ("cpus", self.cpus), ("sm", self.sm_percent), ("r", self.repeat))
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


def command_for(template: tuple[str, ...], setting: Setting) -> list[str]:
    """The user's command with {actors}, {cpus}, {sm_percent} and {repeat} filled in.

    >>> command_for(("train.py", "--n={actors}"), Setting(actors=3))
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


def measure(plan: Plan, setting: Setting, folder: Path) -> Measured:
    """Runs the point and writes its output, its run and `point.json` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    command = command_for(plan.command, setting)
    path = folder / "run.cutaway"
    if plan.metric is None:
        command = [sys.executable, "-m", "cutaway", "run", "-q", "-o", str(path), *command]
    cpus = limits.choose_cpus(setting.cpus)
    environment = {**os.environ, **limits.sm_environment(setting.sm_percent), "PYTHONUNBUFFERED": "1"}
    by_group = setting.cpus is not None and plan.limit_by == "cgroup"
    family = Family()
    with (
        (folder / "output.txt").open("w") as log,
        limits.group(cpus) if by_group else contextlib.nullcontext() as join,
    ):
        lines, code = _run(command, environment, cpus, log, plan.seconds, join)
        seconds, own, foreign = family.gather()
    if plan.metric is None:
        rate, note, foreign, power = _from_run(path, foreign)
    else:
        rate, note, power = _from_lines(lines, plan.metric), "", (None, None)
    if code != 0:
        said = next((line.strip() for _, line in reversed(lines) if line.strip()), "nothing")
        note = (
            f"the program ended with exit code {code} and printed {said[:160]!r}; see {folder / 'output.txt'}"
        )
    result = Measured(
        setting, rate.rate, rate.low, rate.high, rate.start, seconds, code, foreign, foreign > 0.05 * len(cpus) + 0.05,
        rate.enough and code == 0, own / seconds, *power, note,
    )  # fmt: skip
    (folder / "point.json").write_text(json.dumps(dataclasses.asdict(result), indent=1) + "\n")
    return result


def load(path: Path) -> Measured:
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


def _from_lines(lines: list[tuple[float, str]], metric: str) -> Steady:
    """Throughput from what the program prints: the captured number is a rate, or with a group named `steps` a running total."""
    pattern = re.compile(metric)
    if not pattern.groups:
        raise CutawayError(
            f"--metric {metric!r} captures nothing: put the number in parentheses, as in 'fps=([0-9.]+)'."
        )
    group: str | int = "steps" if "steps" in pattern.groupindex else 1
    found = [(t, _number(m[group])) for t, line in lines if (m := pattern.search(line))]
    if not found:
        return Steady()
    times, values = np.array(found).T
    if group == "steps":
        return steady(times, np.diff(values, prepend=values[:1]))
    kept = values[len(values) // 3 :]
    mean, half = float(np.mean(kept)), 1.96 * float(np.std(kept)) / np.sqrt(len(kept))
    return Steady(mean, mean - half, mean + half, times[len(values) // 3], times[-1], len(kept) >= 3)


def _number(text: str) -> float:
    try:
        return float(text.replace(",", "").replace("_", ""))
    except ValueError as error:
        raise CutawayError(f"--metric captured {text!r}, which is not a number.") from error


def _from_run(path: Path, foreign: float) -> tuple[Steady, str, float, tuple[float | None, float | None]]:
    """Throughput from the recorded steps, what to say about it, the cores that others used in the steady part, and the power."""
    try:
        trace = read_run(path)
        everything = observe.read(trace)
        times, amounts, unit = observe.progress(everything, path)
    except CutawayError as error:
        return Steady(), str(error), foreign, (None, None)
    found = steady(times, amounts)
    shifted = dataclasses.replace(found, start=found.start - times[0], end=found.end - times[0])
    note = "" if unit == "steps" else f"counted in {unit}"
    return shifted, note, observe.foreign(everything, found), observe.power(trace)


class Family:
    """The processes of a measured program, children's children included, from its creation until `gather`.

    Meanwhile orphans come to us instead of to init: a fork server or daemon that outlives its parent is waited for, and what it used
    counts as the program's, not as that of strangers.
    """

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._before, self._used = _children(), _waited_for()
        self._start, self._busy = time.monotonic(), _machine_busy()

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
        seconds, own = max(1e-9, time.monotonic() - self._start), _waited_for() - self._used
        return seconds, own, max(0.0, (_machine_busy() - self._busy - own) / seconds)


def _children() -> set[int]:
    me, found = str(os.getpid()), set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if stat.read_text().rsplit(")", 1)[1].split()[1] == me:
                found.add(int(stat.parent.name))
    return found


def _waited_for() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _machine_busy() -> float:
    fields = [int(v) for v in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")
