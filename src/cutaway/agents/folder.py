"""The one folder that a server may touch. Whatever a client sends, a path leads inside it or nowhere."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from cutaway.errors import CutawayError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
ENDING = ".cutaway"


@dataclass(frozen=True)
class Folder:
    """A folder, with its own links resolved."""

    root: Path

    @classmethod
    def at(cls, path: str | os.PathLike[str]) -> Folder:
        """The folder at a path, which must exist."""
        root = Path(path).resolve()
        if not root.is_dir():
            raise CutawayError(f"{path} is not a folder; give one with --folder.")
        return cls(root)

    def inside(self, path: str) -> Path:
        """Where a path leads, links followed; an error if that is outside."""
        if "\0" in path:
            raise CutawayError("A path cannot hold a zero byte.")
        found = (self.root / path).resolve()
        if not found.is_relative_to(self.root):
            raise CutawayError(
                f"{path} is outside of the folder this server may read; use a path inside it."
            )
        return found

    def run(self, path: str) -> Path:
        """A run, with or without its ending, or a folder of runs. A run whose files are links to the outside is refused: reading it
        would read those."""
        found = self.inside(path)
        if not found.exists():
            found = self.inside(path + ENDING)
        if not found.is_dir():
            raise CutawayError(
                f"there is no run {path}; the runs here are: {', '.join(self.runs()) or 'none'}."
            )
        for parent, folders, files in os.walk(found):
            for name in (*folders, *files):
                entry = Path(parent, name)
                if entry.is_symlink() and not entry.resolve().is_relative_to(self.root):
                    raise CutawayError(
                        f"{path} holds a link to the outside ({name}); remove it."
                    )
        return found

    def runs(self) -> list[str]:
        """The names of the runs that lie here, the newest last."""
        found = [file.parent for file in self.root.glob(f"*{ENDING}/run.json")]
        return [
            path.name for path in sorted(found, key=lambda path: path.stat().st_mtime)
        ]

    def new(self, name: str) -> Path:
        """A folder for a new run."""
        if not NAME.fullmatch(name):
            raise CutawayError(
                f"{name} is not a name for a run; use letters, digits, dots and dashes."
            )
        path = self.root / (name.removesuffix(ENDING) + ENDING)
        if path.exists() or path.is_symlink():
            raise CutawayError(f"{path.name} already exists; choose another name.")
        return path
