"""What a run says while it goes on and when it ends: one line of key=value pairs, for people and programs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """Where a run stands."""

    steps: int
    updates: int
    episodes: int
    mean_return: float
    greedy_return: float
    restarts: int


class Progress:
    """Rates since the last line, and since the first step."""

    def __init__(self, action_repeat: int, read: Callable[[], Reading]) -> None:
        self._repeat, self._read = action_repeat, read
        self._begin: tuple[float, Reading] | None = None
        self._last = (time.monotonic(), read())

    def line(self) -> str:
        """The state now, with rates since the last call."""
        now, reading = time.monotonic(), self._read()
        then, before = self._last
        self._last = (now, reading)
        if self._begin is None and reading.steps > before.steps:
            self._begin = self._last
        return self._format(reading, before, now - then)

    def final(self) -> str:
        """The line a run ends with: rates since the first line that saw a step, without start-up."""
        reading = self._read()
        if self._begin is None or reading.steps == self._begin[1].steps:
            return "done " + self.line()
        then, before = self._begin
        return "done " + self._format(reading, before, time.monotonic() - then)

    def _format(self, now: Reading, before: Reading, seconds: float) -> str:
        rate = (now.steps - before.steps) / max(seconds, 1e-9)
        updates = (now.updates - before.updates) / max(seconds, 1e-9)
        return (
            f"steps={now.steps} steps_per_s={rate:.1f} frames={now.steps * self._repeat} "
            f"frames_per_s={rate * self._repeat:.1f} updates={now.updates} updates_per_s={updates:.3g} "
            f"episodes={now.episodes} return={now.mean_return:.3g} greedy_return={now.greedy_return:.3g} "
            f"restarts={now.restarts}"
        )


class Ticker:
    """Calls a function every so many seconds in a thread, whatever the learner is busy with."""

    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self._seconds, self._call = seconds, call
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(self._seconds):
            self._call()

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def say(text: str) -> None:
    print(text, file=sys.stdout, flush=True)
