"""Sends the figures of a running recording to the tools people already watch: `cutaway run --metrics …`.

`cutaway run` follows its run from outside, as `cutaway top` does. Nothing more happens in the traced program.
"""

from __future__ import annotations

import json
import os
import struct
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path

from cutaway import _recorder
from cutaway.analysis.table import totals
from cutaway.errors import CutawayError
from cutaway.trace.exports.protobuf import blob, float32, float64, number
from cutaway.trace.files import write_private

from .live import WINDOW_NS, LiveProcess, LiveRun

EVERY_S = 10.0
FIRST_S = (
    1.0  # sooner at first, then ever less often, so that a short run has figures too
)
NICE = 10
FILE = "metrics.json"
"""In the run's folder: the newest figures, for the W&B run of the traced program."""
HELP = {
    "steps_per_second": "Environment steps a second.",
    "iterations": "Number of the newest pass of the training loop.",
    "share": "Share of the time of the processes of a role that goes into an operation.",
    "waiting": "Share of the time in which the processes of a role wait.",
    "cores_busy": "CPU cores that the run keeps busy.",
    "device_busy": "Share of the time in which a device is busy with work of the run.",
    "memory_bytes": "Resident memory of the processes of a role; memory that n processes share counts as 1/n.",
    "processes": "Processes of the run that are alive.",
    "seconds": "Time since the run began.",
}


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


Sink = Callable[[list[Figure]], None]


def figures(run: LiveRun) -> list[Figure]:
    """What is known about the last ten seconds of a run."""
    main = run.main()
    rate = run.steps_per_second()
    recent = [p for p in run.processes.values() if p.last_ns > run.now_ns - WINDOW_NS]
    cores = [cores for p in recent if (cores := p.cpu()) is not None]
    found = [Figure("seconds", run.up_ns / 1e9)]
    found.append(Figure("processes", sum(not p.ended for p in run.processes.values())))
    found += [] if rate is None else [Figure("steps_per_second", rate)]
    found += [Figure("iterations", main.iterations)] if main and main.iterations else []
    found += [Figure("cores_busy", sum(cores))] if cores else []
    roles: dict[
        str, list[LiveProcess]
    ] = {}  # few groups, however many processes there are
    for process in recent:
        roles.setdefault(
            process.role or ("main" if process is main else "other"), []
        ).append(process)
    for role, processes in roles.items():  # how their main threads divide their time
        each = (process.totals().items() for process in processes)
        spent = totals(chain.from_iterable(each))
        total = sum(spent.values())
        if total:
            for operation, ns in sorted(
                totals((name, ns) for (name, _), ns in spent.items()).items()
            ):
                about = ("role", role), ("operation", operation or "(none)")
                found.append(Figure("share", ns / total, about))
            waited = sum(ns for (_, layer), ns in spent.items() if layer == "wait")
            found.append(Figure("waiting", waited / total, (("role", role),)))
        memory = [max(0, has - p.shared) for p in processes if (has := p.resident())]
        if memory:
            about_role = (("role", role),)
            found.append(Figure("memory_bytes", float(sum(memory)), about_role))
    for device, (busy, _) in sorted(run.gpu(*run.processes.values()).items()):
        found.append(Figure("device_busy", busy, (("device", str(device)),)))
    return found


def sinks(words: Iterable[str], run: Path) -> list[Sink]:
    """The destinations named by `--metrics`; a one-sentence error if one cannot be used."""
    return [_sink(word, run) for word in words]


def _sink(word: str, run: Path) -> Sink:
    kind, _, place = word.partition("=")
    try:
        if kind == "tensorboard" and place:
            return tensorboard(Path(place))
        if kind == "file" and place.endswith(".prom"):
            return prometheus(Path(place), run.stem)
        if word == "wandb":
            return lambda found: _replace(
                run / FILE, json.dumps({f.tag: f.value for f in found})
            )
    except OSError as error:
        raise CutawayError(
            f"{place} cannot be written ({error.strerror}); choose another path for --metrics."
        ) from None
    raise CutawayError(
        f"--metrics {word} is unknown; use tensorboard=DIR, file=PATH.prom or wandb."
    )


def _replace(path: Path, text: str, private: bool = True) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    new = path.with_name(f".{path.name}.{os.getpid()}")  # a collector reads *.prom
    if private:
        write_private(new, text)
    else:
        new.write_text(text, encoding="utf-8")
    new.replace(path)


def prometheus(path: Path, run: str) -> Sink:
    """A file in Prometheus' text format, for node_exporter's textfile collector or any scraper of files."""

    def write(figures: list[Figure]) -> None:
        _replace(path, exposition(figures, run), private=False)

    path.parent.mkdir(parents=True, exist_ok=True)
    write([])
    return write


def exposition(figures: list[Figure], run: str) -> str:
    """The text for Prometheus; every line carries the name of the run.

    >>> print(exposition([Figure("share", 0.5, (("operation", 'my "own"'),))], "pong"), end="")
    # HELP cutaway_share Share of the time of the processes of a role that goes into an operation.
    # TYPE cutaway_share gauge
    cutaway_share{run="pong",operation="my \\"own\\""} 0.5
    """
    lines = []
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    for name, same in groupby(
        sorted(figures, key=lambda figure: figure.name), lambda figure: figure.name
    ):
        lines += [f"# HELP cutaway_{name} {HELP[name]}", f"# TYPE cutaway_{name} gauge"]
        for figure in same:
            labels = (
                f'{key}="{value.translate(escapes)}"'
                for key, value in (("run", run), *figure.labels)
            )
            lines.append(f"cutaway_{name}{{{','.join(labels)}}} {figure.value!r}")
    return "".join(line + "\n" for line in lines)


def tensorboard(folder: Path) -> Sink:
    """Scalars in one event file: TFRecords, each with a protobuf `Event`. The seconds of the run are the step."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"events.out.tfevents.{int(time.time()):010d}.{os.uname().nodename}.{os.getpid()}.cutaway"

    def append(what: bytes) -> None:
        event = float64(1, time.time()) + what
        length = struct.pack("<Q", len(event))
        with (folder / name).open("ab") as file:
            file.write(length + _checksum(length) + event + _checksum(event))

    def write(figures: list[Figure]) -> None:
        seconds = next(
            (int(figure.value) for figure in figures if figure.name == "seconds"), 0
        )
        values = (
            blob(1, "cutaway/" + f.tag) + float32(2, f.value)
            for f in figures
            if f.name != "seconds"
        )
        append(
            number(2, seconds) + blob(5, b"".join(blob(1, value) for value in values))
        )

    append(blob(3, "brain.Event:2"))
    return write


def _checksum(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    crc = _recorder.crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


class Follower:
    """Reads a run while it is recorded, about every ten seconds, and hands its figures on; in a thread of low priority."""

    def __init__(self, path: Path, sinks: list[Sink]) -> None:
        self.failure = ""
        self._path = path
        self._sinks = sinks
        self._end = threading.Event()
        self._thread = threading.Thread(
            target=self._work, name="cutaway metrics", daemon=True
        )

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """The run has ended: hand on its last figures."""
        self._end.set()
        self._thread.join()

    def _work(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        wait = FIRST_S
        live = None
        ended = False
        while not ended:
            ended = self._end.wait(wait)
            wait = min(2 * wait, EVERY_S)
            try:
                live = live or LiveRun(self._path)
                live.refresh()
                if live.processes:
                    found = figures(live)
                else:
                    found = []
                for sink in self._sinks if found else ():
                    sink(found)
            except (CutawayError, OSError) as error:
                self.failure = self.failure or str(error)
