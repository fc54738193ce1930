"""The figures of a run while it is recorded, for the places where people already look: `cutaway run --metrics …`.

`cutaway run` follows its run from outside, as `cutaway top` does. Nothing more happens in the traced program.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cutaway.analysis.table import totals
from cutaway.errors import CutawayError
from cutaway.reports.live import WINDOW_S, LiveProcess, LiveRun

EVERY_S = 10.0
FIRST_S = 1.0  # sooner at first, then ever less often, so that a short run has figures too
NICE = 10
FILE = "metrics.json"
"""In the run's folder: the newest figures, for the W&B run of the traced program."""


@dataclass(frozen=True)
class Figure:
    """One number of the last seconds. The labels tell what it is about."""

    name: str
    value: float
    labels: tuple[tuple[str, str], ...] = ()

    @property
    def tag(self) -> str:
        """Its name in a tree of names: `share/learner/inference`."""
        return "/".join([self.name, *(value for _, value in self.labels)])


HELP = {
    "steps_per_second": "Environment steps a second.",
    "iterations": "Number of the newest pass of the training loop.",
    "share": "Share of the time of the processes of a role that goes into an operation.",
    "waiting": "Share of the time in which the processes of a role wait.",
    "cores_busy": "CPU cores that the run keeps busy.",
    "device_busy": "Share of the time in which a device is busy with work of the run.",
    "processes": "Processes of the run that are alive.",
    "seconds": "Time since the run began.",
}
Sink = Callable[[list[Figure]], None]


def figures(run: LiveRun) -> list[Figure]:
    """What is known about the last ten seconds of a run."""
    main, rate = run.main(), run.steps_per_second()
    recent = [p for p in run.processes.values() if p.last_ns > run.now_ns - WINDOW_S * 1_000_000_000]
    cores = [cores for p in recent if (cores := p.cores()) is not None]
    return [
        Figure("seconds", run.up_ns / 1e9),
        Figure("processes", sum(not p.ended for p in run.processes.values())),
        *([] if rate is None else [Figure("steps_per_second", rate)]),
        *([Figure("iterations", main.iterations)] if main and main.iterations else []),
        *([Figure("cores_busy", sum(cores))] if cores else []),
        *(figure for role, own in _roles(recent, main).items() for figure in _shares(role, own)),
        *(
            Figure("device_busy", busy, (("device", str(number)),))
            for number, (busy, _) in sorted(run.gpu(*run.processes.values()).items())
        ),
    ]


def _roles(processes: Iterable[LiveProcess], main: LiveProcess | None) -> dict[str, list[LiveProcess]]:
    """Processes by what they are for; few groups, however many processes there are."""
    out: dict[str, list[LiveProcess]] = {}
    for process in processes:
        out.setdefault(process.role or ("main" if process is main else "other"), []).append(process)
    return out


def _shares(role: str, processes: list[LiveProcess]) -> Iterator[Figure]:
    """How the main threads of these processes divide their time."""
    spent = totals(pair for process in processes for pair in process.totals().items())
    total = sum(spent.values())
    if not total:
        return
    for operation, ns in sorted(totals((name, ns) for (name, _), ns in spent.items()).items()):
        yield Figure("share", ns / total, (("role", role), ("operation", operation or "(none)")))
    waited = sum(ns for (_, layer), ns in spent.items() if layer == "wait")
    yield Figure("waiting", waited / total, (("role", role),))


def sinks(words: Iterable[str], run: Path) -> list[Sink]:
    """Where the figures go, from the values of `--metrics`; one sentence if a place cannot be used."""
    return [_sink(word, run) for word in words]


def _sink(word: str, run: Path) -> Sink:
    from cutaway.reports.metrics import prometheus, tensorboard

    kind, _, place = word.partition("=")
    try:
        if kind == "tensorboard" and place:
            return tensorboard.Writer(Path(place))
        if kind == "file" and place.endswith(".prom"):
            return prometheus.Writer(Path(place), run.stem)
        if word == "wandb":
            return lambda found: _replace(run / FILE, json.dumps({f.tag: f.value for f in found}))
    except OSError as error:
        raise CutawayError(
            f"{place} cannot be written ({error.strerror}); choose another path for --metrics."
        ) from None
    raise CutawayError(f"--metrics {word} is unknown; use tensorboard=DIR, file=PATH.prom or wandb.")


def _replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    from cutaway.trace.files import write_private

    new = path.with_name(f".{path.name}.{os.getpid()}")
    write_private(new, text)
    new.replace(path)


class Follower:
    """Reads a run that is being recorded, about every ten seconds, and hands its figures on; in a thread of low priority."""

    def __init__(self, path: Path, sinks: list[Sink]) -> None:
        self.failure = ""
        self._path, self._sinks = path, sinks
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._work, name="cutaway metrics", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The run has ended: hand on its last figures."""
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        wait, live = FIRST_S, None
        while True:
            ended = self._end.wait(wait)
            wait = min(2 * wait, EVERY_S)
            try:
                live = live or LiveRun(self._path)
                live.refresh()
                found = figures(live) if live.processes else []
                for sink in self._sinks if found else ():
                    sink(found)
            except (CutawayError, OSError) as error:
                self.failure = self.failure or str(error)
            if ended:
                return
