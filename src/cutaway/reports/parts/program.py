"""What was run, where and with what."""

from __future__ import annotations

import shlex
import time
from itertools import chain
from pathlib import Path
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.noise import versions
from cutaway.record.frameworks import cards

from .. import text
from ..digest import Program


def program(run: Run, used: dict[str, Any]) -> Program:
    """What was run, where and with what; `used` is from `usage`."""
    path = run.trace.path
    about = run.trace.about
    words = _words(about.get("command"))
    return Program(
        path=text.nearby(path),
        name=Path(_first(run, "program")).name or path.name,
        command=_command(about.get("command")),
        title=_title(words) or path.name,
        created=_created(about.get("created")),
        host=str(about.get("host") or ""),
        python=_first(run, "python"),
        clock=_first(run, "clock"),
        source=str(about.get("source") or ""),
        versions=_versions(run),
        facts=run.trace.facts,
        devices=_devices(run, used),
    )


def _first(run: Run, key: str) -> str:
    """The value from the first process that has one."""
    for process in run.trace.processes:
        if found := process.log.process.get(key):
            return str(found)
    return ""


def _words(command: object) -> list[str]:
    if isinstance(command, list):
        return [str(word) for word in command]
    return str(command or "").split()


def _command(command: object) -> str:
    if isinstance(command, list):
        return shlex.join(_words(command))
    return str(command or "")


def _title(words: list[str]) -> str:
    """The command without the interpreter and the path of the script."""
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    if not words:
        return ""
    return " ".join([Path(words[0]).name, *words[1:]])


def _created(created: object) -> str:
    if isinstance(created, int):
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(created / 1e9))
    return str(created or "")


def _versions(run: Run) -> dict[str, str]:
    """Packages, those that matter most first."""
    found = versions(run)
    first = [name for name in _headlines() if name in found]
    others = sorted(set(found) - set(first))
    return {name: found[name] for name in [*first, *others]}


def _headlines() -> list[str]:
    """Packages whose versions stand first: those with a number on their card, by that number, then NumPy."""
    numbered = {
        name: card.headline for name, card in cards.every().items() if card.headline
    }
    first = sorted(numbered, key=lambda name: numbered[name])
    return [*first, "stable-baselines3", "numpy"]


def _devices(run: Run, used: dict[str, Any]) -> tuple[str, ...]:
    logged = chain.from_iterable(p.log.devices for p in run.trace.processes)
    names = [str(device.get("name") or "accelerator") for device in logged]
    unnamed = [f"device {number}" for number in used["devices"]]
    return tuple(dict.fromkeys(names or unnamed))
