"""How much memory this process may have: the machine's, or less where a control group says so; and how many processes the
kernel has killed there because it ran out."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = "/sys/fs/cgroup"


def memory_limit(proc: str = "/proc", root: str = ROOT) -> dict[str, int]:
    """Bytes of the machine (`total`), of the narrowest group this process is in (`limit`, if there is one), and what that
    group has counted of killed processes (`oom_kills`). What cannot be read is left out."""
    found: dict[str, int] = {}
    total = _number_after(_text(f"{proc}/meminfo"), "MemTotal:")
    if total is not None:
        found["total"] = total * 1024
    for folder in _groups(proc, root):
        own = _text(f"{folder}/memory.max") or _text(f"{folder}/memory.limit_in_bytes")
        if own.strip().isdecimal() and int(own) < found.get(
            "limit", found.get("total", 1 << 62)
        ):
            found["limit"] = int(own)
        kills = _number_after(_text(f"{folder}/memory.events"), "oom_kill ")
        if kills is None:
            kills = _number_after(_text(f"{folder}/memory.oom_control"), "oom_kill ")
        if kills is not None:
            found["oom_kills"] = max(found.get("oom_kills", 0), kills)
    return found


def _groups(proc: str, root: str) -> Iterator[str]:
    """The folders of this process's group and of those around it. Inside a container the path is that of the host, so the
    root itself is looked at in any case."""
    for line in _text(f"{proc}/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and "memory" not in controllers.split(","):
            continue
        if controllers:
            base = f"{root}/memory"
        else:
            base = root
        path = path.rstrip("/")
        while path:
            yield base + path
            path = os.path.dirname(path).rstrip("/")
        yield base


def _text(path: str) -> str:
    try:
        with open(path) as file:
            return file.read(1 << 16)
    except (OSError, ValueError):
        return ""


def _number_after(text: str, word: str) -> int | None:
    for line in text.splitlines():
        if line.startswith(word):
            number = line[len(word) :].split()[:1]
            if number and number[0].isdecimal():
                return int(number[0])
            return None
    return None
