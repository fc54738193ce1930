"""What a check says, and the machine it looks at."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

OK, LIMITED, MISSING = "ok", "limited", "missing"


@dataclass(frozen=True)
class Finding:
    """One line of the report. `remedy` is empty when there is nothing to do."""

    what: str
    state: str
    text: str
    remedy: str = ""


@dataclass(frozen=True)
class Host:
    """Where checks look; tests point `root` at a folder with the files of another machine."""

    root: Path = Path("/")
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    cores: int = 0
    folder: Path = Path()

    def read(self, path: str) -> str | None:
        """The text of a file such as proc/meminfo, None if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def exists(self, path: str) -> bool:
        """Whether there is such a file."""
        return (self.root / path).exists()

    def visible_cores(self) -> int:
        """The cores a program sees when it asks how many there are."""
        return self.cores or os.cpu_count() or 1

    def allowed_cores(self) -> int:
        """The cores this process may be scheduled on."""
        return self.cores or len(os.sched_getaffinity(0))
