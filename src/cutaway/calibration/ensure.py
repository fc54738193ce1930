"""The prior of this machine, measured now if it never was; and what a run was recorded with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from cutaway.calibration import prior
from cutaway.calibration.prior import Prior
from cutaway.trace.files import read_object, write_private

FILE = "calibration.json"
LIMIT = 60.0  # seconds, on a machine so busy that the three take this long


def ensure(tell: Callable[[str], None], quick: bool = True, again: bool = False) -> Prior:
    """The prior; `tell` is given one line when it has to be measured. Never fails: without a result the fallback serves."""
    found = None if again else prior.cached()
    if found is not None:
        return found
    tell("measuring once what recording costs on this machine (3 s)")
    try:
        command = [sys.executable, "-m", "cutaway.calibration.bench", *(["--quick"] if quick else [])]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=LIMIT if quick else 10 * LIMIT,
            env=_environment(),
        )
        measured = Prior.from_json(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        measured = None
    if measured is None:
        return prior.FALLBACK
    prior.keep(measured)
    return measured


def _environment() -> dict[str, str]:
    environment = dict(os.environ)
    environment.pop("CUTAWAY", None)
    return environment


def attach(folder: Path, found: Prior) -> None:
    """Keeps the prior with the run, so that another machine can analyse it."""
    write_private(folder / FILE, json.dumps(found.to_json()))


def of_run(folder: Path) -> Prior:
    """The prior a run was recorded with; this machine's, or the fallback, if it has none."""
    return Prior.from_json(read_object(folder / FILE)) or prior.cached() or prior.FALLBACK
