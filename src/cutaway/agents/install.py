"""Puts the packaged skill where an agent looks for it."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from cutaway.errors import CutawayError

NAME = "cutaway"
PLACES = {
    "claude": ".claude/skills",
    "codex": ".codex/skills",
    "agents": ".agents/skills",
}
"""Where agents look for skills, below a project or the home folder."""


def skill() -> str:
    """The text of the skill."""
    file = resources.files(__package__).joinpath("skill/SKILL.md")
    return file.read_text(encoding="utf-8")


def install(folder: Path, force: bool = False) -> Path:
    """Write the skill into a folder of skills; returns its file. One that was edited is kept unless `force` is given."""
    path = folder / NAME / "SKILL.md"
    if path.is_file() and path.read_text(encoding="utf-8") != skill() and not force:
        raise CutawayError(f"{path} exists and differs; use --force to replace it.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(skill(), encoding="utf-8")
    except OSError as error:
        raise CutawayError(
            f"{path} cannot be written ({error.strerror}); choose another with --to."
        ) from None
    return path
