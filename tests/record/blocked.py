"""Acts once a thread really waits: whatever else the machine is busy with, the thread is never late for its own wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 300.0
LOOKS_APART_S = 0.02


def until_blocked(thread: int, process: int | str = "self") -> None:
    """Returns when a thread, by its kernel id, has slept through two looks without having run in between."""
    end, before = time.monotonic() + PATIENCE_S, None
    while (
        now := _asleep(Path(f"/proc/{process}/task/{thread}"))
    ) is None or now != before:
        assert time.monotonic() < end, "it never waits"
        before = now
        time.sleep(LOOKS_APART_S)


def when_blocked(action: Callable[..., object], *arguments: object) -> threading.Thread:
    """Does something in another thread as soon as this one waits; wait for it as for any thread."""
    me = threading.get_native_id()

    def act() -> None:
        until_blocked(me)
        action(*arguments)

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def _asleep(task: Path) -> list[str] | None:
    """How often a sleeping thread has left its core; None if it is not asleep."""
    status = (task / "status").read_text().splitlines()
    if not any(line.startswith("State:\tS") for line in status):
        return None
    return [line for line in status if "ctxt_switches" in line]
