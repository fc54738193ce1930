"""What one event costs on a machine, before a run has measured it: the result of the microbenchmark, and where it is stored.

The cost in a program lies between that of a hot loop and that after the caches were evicted; both are kept, and the middle with that
spread is the prior of a run's own estimate.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from cutaway.calibration.costs import Cost
from cutaway.trace.files import read_object, write_private

FORMAT = 1
FILE = "calibration.json"
LIMIT = 60.0  # seconds, on a machine so busy that the three take this long


@dataclass(frozen=True)
class Kind:
    """One kind of event: in a hot loop, after evicting the caches, and the part that lies inside the recorded interval."""

    hot: Cost
    cold: Cost
    inside: float

    @property
    def middle(self) -> float:
        """The geometric middle of hot and cold.

        >>> Kind(Cost(20, 19, 21), Cost(80, 70, 90), 10).middle
        40.0
        """
        return float((max(self.hot.ns, 1.0) * max(self.cold.ns, 1.0)) ** 0.5)


@dataclass(frozen=True)
class Prior:
    """All kinds, by name, and what they were measured on."""

    kinds: Mapping[str, Kind]
    key: str = ""

    def to_json(self) -> dict[str, Any]:
        return {"format": FORMAT, **asdict(self)}

    @staticmethod
    def from_json(values: Any) -> Prior | None:
        """None for anything that is not a prior of this format; no event takes longer than a second."""
        try:
            kinds = {
                str(name): Kind(
                    Cost(**kind["hot"]), Cost(**kind["cold"]), kind["inside"]
                )
                for name, kind in values["kinds"].items()
            }
            numbers = []
            for kind in kinds.values():
                numbers += [*astuple(kind.hot), *astuple(kind.cold), kind.inside]
            fine = values["format"] == FORMAT and FALLBACK.kinds.keys() <= kinds.keys()
            if fine and all(-1e9 < n < 1e9 for n in numbers):
                return Prior(kinds, str(values["key"]))
            return None
        except (KeyError, TypeError, AttributeError):
            return None


FALLBACK = Prior(
    {
        # a run without a prior of its machine: the published floor of such a recorder, hot and in real programs
        "call": Kind(Cost(20, 15, 30), Cost(120, 60, 200), 10.0),
        "operation": Kind(Cost(60, 40, 100), Cost(300, 150, 500), 20.0),
    },
    "fallback",
)


def machine_key() -> str:
    """Changes when the CPU, the Python, Cutaway or a debug switch does."""
    from cutaway import __version__

    try:
        described = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        described = []
    model = next(
        (line for line in described if line.startswith("model name")),
        platform.machine(),
    )
    debug = os.environ.get("CUTAWAY_DEBUG_SPIN_NS", "")
    parts = (model, str(os.cpu_count()), sys.version, __version__, debug, str(FORMAT))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def cache_path() -> Path:
    """Where the prior of this machine is kept."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser())
    return root / "cutaway" / f"calibration-{machine_key()}.json"


def cached() -> Prior | None:
    """The prior of this machine, if it was measured before."""
    found = Prior.from_json(read_object(cache_path()))
    if found is not None and found.key == machine_key():
        return found
    return None


def ensure(
    tell: Callable[[str], None], quick: bool = True, again: bool = False
) -> Prior:
    """The prior; `tell` gets one line to show if it has to be measured. Never fails: without a result the fallback serves, and a
    cache that cannot be written does not matter."""
    found = None if again else cached()
    if found is not None:
        return found
    tell("measuring what recording costs on this machine (once, 3 s)")
    command = [
        sys.executable,
        "-m",
        "cutaway.calibration.bench",
        *(["--quick"] if quick else []),
    ]
    unrecorded = {
        name: value for name, value in os.environ.items() if name != "CUTAWAY"
    }
    limit = LIMIT if quick else 10 * LIMIT
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=limit, env=unrecorded
        )
        found = Prior.from_json(json.loads(done.stdout))
    except (OSError, ValueError, subprocess.SubprocessError):
        pass
    if found is None:
        return FALLBACK
    path = cache_path()
    temporary = path.with_suffix(f".{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(temporary, json.dumps(found.to_json()))
        temporary.replace(path)
    except OSError:
        pass
    return found


def attach(folder: Path, found: Prior) -> None:
    """Keeps the prior with the run, so that another machine can analyse it."""
    write_private(folder / FILE, json.dumps(found.to_json()))


def of_run(folder: Path) -> Prior:
    """The prior a run was recorded with; this machine's, or the fallback, if it has none."""
    return Prior.from_json(read_object(folder / FILE)) or cached() or FALLBACK
