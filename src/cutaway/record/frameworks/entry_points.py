"""Rules that libraries bring along, by entry points of the group `cutaway.frameworks`:

    [project.entry-points."cutaway.frameworks"]
    mylib = "mylib.cutaway_hooks:install"

The name is the package to wait for; the function is called without arguments after the first import of that package.
Nothing of it is imported before. importlib.metadata would take longer to import than all of us take to start, so the
few lines are read here.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from functools import partial
from types import FrameType, ModuleType

from cutaway import _recorder
from cutaway.record.imports import when_imported, when_sought

GROUP = "[cutaway.frameworks]"


def install() -> None:
    """Wait for the packages that bring rules, as soon as sys.path is complete.

    We are started by a .pth file, while other .pth files still wait for their turn; what `site` imports after all of
    them is sitecustomize.
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != "site":
        frame = frame.f_back
    if frame is not None:
        when_sought("sitecustomize", _wait_for_all)
    else:
        _wait_for_all()


def _wait_for_all() -> None:
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):
        try:
            names = os.listdir(folder or ".")
        except OSError:  # a zip file, or nothing at all
            continue
        for name in names:
            if name.endswith((".dist-info", ".egg-info")):
                # What comes first on sys.path is what would be imported.
                found = (
                    dict(_entries(f"{folder or '.'}/{name}/entry_points.txt")) | found
                )
    for package, target in found.items():
        when_imported(package, partial(_hand_over, target))


def _entries(path: str) -> Iterator[tuple[str, str]]:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:  # most packages have none
        return
    if GROUP.encode() not in data:
        return
    mine = False
    for line in data.decode(errors="replace").splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            mine = line == GROUP
        elif mine and "=" in line:
            name, _, target = line.partition("=")
            yield name.strip(), target.strip()


def _hand_over(target: str, module: ModuleType) -> None:
    home, _, function = target.partition(":")
    try:
        getattr(importlib.import_module(home), function or "install")()
    except Exception as error:  # it is no part of the program, which must not notice
        _recorder.note(
            f"{module.__name__}: its hooks {target} failed: {type(error).__name__}: {error}"
        )
