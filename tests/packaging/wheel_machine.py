"""An empty environment for the wheel that scripts/test-pythons and scripts/wheels name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

WHEEL = Path(os.environ["CUTAWAY_WHEEL"]).resolve()
PYTHON = Path(os.environ.get("CUTAWAY_WHEEL_PYTHON", sys.executable))


class Machine:
    """An environment of its own, where only the commands of that environment are found."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.bin = folder, folder / "empty/bin"
        subprocess.run([PYTHON, "-m", "venv", folder / "empty"], check=True)

    def install(self) -> None:
        """The wheel and what it needs, without a compiler."""
        self.run("pip", "install", "-q", "--only-binary", ":all:", str(WHEEL))

    def run(self, *words: str) -> str:
        environment = {**os.environ, "PATH": str(self.bin)}
        environment.pop("PYTHONPATH", None)
        program = str(self.bin / words[0])
        done = subprocess.run(
            [program, *words[1:]],
            env=environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout
