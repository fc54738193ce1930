"""Opens a run folder: which processes it holds, and one clock for all of them.

Opening a run reads logs and the heads of blocks only. A run that is still being written can be read, and read on with
`Trace.refresh`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from cutaway.errors import CutawayError
from cutaway.record.storage import HOST
from cutaway.trace.clocks import HostClock, host_clocks
from cutaway.trace.files import is_folder, read_object
from cutaway.trace.log import Anchor
from cutaway.trace.process import ProcessTrace
from cutaway.vocabulary import FORMAT_VERSION

__all__ = ["ProcessTrace", "Trace", "read_run"]

_PROCESS = re.compile(r"p[0-9]+-.+", re.DOTALL)  # the name of its folder


@dataclass
class Trace:
    """A run on disk."""

    path: Path
    about: dict[str, Any]
    processes: list[ProcessTrace] = field(default_factory=list)
    hosts: dict[str, HostClock] = field(default_factory=dict)
    ended: dict[str, Any] = field(
        default_factory=dict
    )  # how the command ended, as `cutaway run` saw it

    @property
    def facts(self) -> dict[str, Any]:
        """What the program said with `cutaway.describe`, in any of its processes."""
        found: dict[str, Any] = {}
        for process in self.processes:
            found.update(process.log.facts)
        return found

    def refresh(self) -> None:
        """Takes in what was written since the run was opened: new processes, and what the others did meanwhile."""
        self.ended = read_object(self.path / "exit.json")
        known = {process.folder for process in self.processes}
        for process in self.processes:
            process.refresh()
        self.processes += [
            ProcessTrace(folder)
            for folder in _folders(self.path)
            if folder not in known
        ]
        self._align_clocks()
        self.processes.sort(key=lambda p: (p.log.process.get("t", 0), p.pid))
        anchors: dict[str, list[Anchor]] = {}
        for process in self.processes:
            process.borrowed_anchors = anchors.setdefault(process.host, [])
            process.borrowed_anchors += process.log.anchors
        self._number_workers()

    def positions(self) -> dict[tuple[str, int], int]:
        """Where the process of a host and a pid stands in `processes`."""
        return {
            (process.host, process.pid): index
            for index, process in enumerate(self.processes)
        }

    def _align_clocks(self) -> None:
        """Several hosts, several clocks: all times become those of one of them."""
        hosts = {process.host for process in self.processes}
        if len(hosts) < 2:
            return
        if not hosts <= self.hosts.keys():
            self.hosts = host_clocks(
                (process.host, process.log) for process in self.processes
            )
        for process in self.processes:
            shift = self.hosts[process.host].shift_ns
            if process.log.shift != shift:
                process.move_clock(shift)
            name = str(process.log.process.get("name") or f"pid {process.pid}")
            if not name.startswith(f"{process.host}: "):
                process.log.process["name"] = f"{process.host}: {name}"

    def _number_workers(self) -> None:
        """Ray's workers know their class, not how many of it there are: `Sampler#1`, `Sampler#2`, in order of their start."""
        by_name: dict[str, list[ProcessTrace]] = {}
        for process in self.processes:
            if any(on.startswith(("actor:", "task:")) for on, _ in process.log.feeds):
                by_name.setdefault(str(process.log.process.get("name")), []).append(
                    process
                )
        for name, members in by_name.items():
            known = sum(other.startswith(f"{name}#") for other in by_name)
            for number, process in enumerate(members, known + 1):
                if "#" not in name and known + len(members) > 1:
                    process.log.process["name"] = f"{name}#{number}"


def read_run(path: str | Path) -> Trace:
    """Opens a run folder."""
    folder = Path(path)
    if not folder.exists():
        raise CutawayError(
            f"There is no run at {folder}; name a folder NAME.cutaway that `cutaway run` made."
        )
    if not _folders(folder) and not (folder / "run.json").is_file():
        raise CutawayError(
            f"{folder} is not a Cutaway run; record one with `cutaway run` or `cutaway import`."
        )
    about = read_object(folder / "run.json")
    if isinstance(about.get("format"), int) and about["format"] > FORMAT_VERSION:
        raise CutawayError(
            f"{folder} was written by a newer Cutaway (format {about['format']}); update to read it."
        )
    trace = Trace(folder, about)
    trace.refresh()
    return trace


def _folders(run: Path) -> list[Path]:
    """Of the processes that wrote anything."""
    if run.is_dir():
        parts = [run, *(part for part in run.glob(f"{HOST}*") if is_folder(part))]
    else:
        parts = []
    inside = chain.from_iterable(part.glob("p*-*") for part in parts)
    return [
        p
        for p in inside
        if _PROCESS.fullmatch(p.name) and is_folder(p) and any(p.iterdir())
    ]
