"""The run's folder: its name, run.json at the start, exit.json at the end. Private to the user (0700)."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

from cutaway.record.memory_limit import memory_limit
from cutaway.record.options import Options
from cutaway.vocabulary import FORMAT_VERSION

_OPTION = re.compile(r"--[A-Za-z][\w.-]*|-[A-Za-z]")


def default_name(command: list[str]) -> str:
    """`train-20261115-212600.cutaway` for `python train.py`; with a number if that exists already.

    The script or module behind python or torchrun tells a reader what ran.
    """
    words = command
    if Path(words[0]).name.startswith("python") and len(words) > 1:
        if words[1] == "-m" and len(words) > 2:
            words = words[2:]
        else:
            words = words[1:]
    script = next((w for w in words if w.endswith(".py")), words[0])
    if script.startswith("-"):  # python -c …
        script = Path(command[0]).name
    program = Path(script.rstrip("/")).stem.replace(" ", "_") or "run"
    stem = f"{program}-{time.strftime('%Y%m%d-%H%M%S')}"
    name = f"{stem}.cutaway"
    number = 2
    while os.path.lexists(name):
        name = f"{stem}-{number}.cutaway"
        number = number + 1
    return name


def create(
    path: Path | str, command: list[str], options: Options, source: str = "cutaway run"
) -> None:
    """Make the folder, which must not exist, and write run.json: no environment, and no values of the program's arguments unless
    they were asked for."""
    from cutaway import __version__

    os.mkdir(path, mode=0o700)
    os.chmod(path, 0o700)
    about = {
        "format": FORMAT_VERSION,
        "cutaway": __version__,
        "command": command if options.store_arguments else without_values(command),
        "created": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "host": os.uname().nodename,
        "cpus": len(os.sched_getaffinity(0)),
        "memory": memory_limit(),
        "source": source,
        "options": {
            name: value for name, value in vars(options).items() if name != "folder"
        },
    }
    _write(Path(path, "run.json"), about)


def without_values(command: list[str]) -> list[str]:
    """The program of a command and the names of its options: any value may be a password.

    >>> without_values(["python", "train.py", "--lr", "3e-4", "--key=secret", "-ksecret", "run1"])
    ['python', 'train.py', '--lr', '--key', '-k']
    """
    program = 1
    if Path(command[0]).name.startswith("python"):
        if command[1:2] == ["-m"]:
            program = 3
        elif command[1:2] and command[1].startswith("-"):
            program = 1
        else:
            program = 2
    kept = command[:program]
    rest = command[program:]
    has_script = len(kept) > 1
    for word in rest:
        if word.endswith(".py") and not has_script:
            kept.append(word)
            has_script = True
        elif name := _OPTION.match(word):
            kept.append(name[0])
    return kept


def write_exit(path: Path, status: int) -> None:
    """exit.json from a wait status."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        ended = {"signal": -code}
    else:
        ended = {"code": code}
    kills = memory_limit().get("oom_kills")
    if kills is None:
        counted = {}
    else:
        counted = {"oom_kills": kills}
    _write(path / "exit.json", {**ended, "t": time.monotonic_ns(), **counted})


def _write(path: Path, value: dict[str, Any]) -> None:
    text = json.dumps(value, indent=1) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
