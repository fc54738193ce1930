"""Runs programs with a collector in them, and reads back what it wrote."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.record.devices import library
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import DeviceKind

HERE = Path(__file__).parent


@dataclass
class Recorded:
    """One process as read back from disk."""

    process: ProcessTrace

    @property
    def api(self) -> Any:
        return self.process.api()

    @property
    def work(self) -> Any:
        """What kept the device busy."""
        records = self.process.device()
        return records[
            ~np.isin(records["kind"], (DeviceKind.SYNC, DeviceKind.OVERHEAD))
        ]

    @property
    def beside(self) -> Any:
        """What the collector told besides: synchronisation, and the time it took itself."""
        records = self.process.device()
        return records[np.isin(records["kind"], (DeviceKind.SYNC, DeviceKind.OVERHEAD))]

    def named(self, records: Any, name: str) -> Any:
        """The records of that name."""
        ids = [id for id, text in self.process.log.names.items() if text == name]
        return records[np.isin(records["name"], ids)]

    def operations(self, records: Any) -> list[str]:
        """Names of the operations that stand in the records themselves."""
        return [self.process.log.name(int(id)) for id in records["operation"]]

    def lost(self, what: str) -> int:
        return sum(
            entry["n"] for entry in self.process.log.losses if entry["what"] == what
        )


def read(folder: Path) -> list[Recorded]:
    """The processes of a run that have device work or calls, in order of time."""
    found = [Recorded(process) for process in read_run(folder).processes]
    return [r for r in found if len(r.api) or len(r.work)]


def in_run(
    run: Path, command: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command as part of a run, as `cutaway run` would."""
    run.mkdir(exist_ok=True)
    variables = {**os.environ, "CUTAWAY": str(run), **environment}
    return subprocess.run(
        command, env=variables, capture_output=True, text=True, timeout=600
    )


def inject(fake: Path) -> dict[str, str]:
    """The environment in which the double stands for CUPTI."""
    return {"CUDA_INJECTION64_PATH": str(library.path()), "CUTAWAY_CUPTI": str(fake)}


MAIN = "import sys; from cutaway.commands import main; sys.exit(main())"


def record(run: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """`cutaway run` with options and a program."""
    command = [sys.executable, "-c", MAIN, "run", "-q", "-o", str(run), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)
