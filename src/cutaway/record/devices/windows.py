"""Capture in windows, for profilers that keep everything in memory until they stop.

A thread of its own starts the other profiler, waits, stops it and hands over what it saw. Between two windows nothing
is seen; how long that was is counted and said.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from cutaway import _recorder
from cutaway.record.devices import library

SECONDS = 1.0  # of a window

opened: dict[str, Windows] = {}  # by the name of the profiler
# A fork copies no threads: in the child nobody opens windows, and nobody must wait for their end.
os.register_at_fork(after_in_child=opened.clear)


def stop() -> None:
    """End the open windows, write them, and say how much of the time was seen."""
    while opened:
        opened.popitem()[1].stop()


class Windows:
    """`begin()` starts a capture (or returns None for "not yet"), `end(capture)` stops it and writes its records."""

    def __init__(
        self, name: str, begin: Callable[[], Any], end: Callable[[Any], None]
    ) -> None:
        self._name = name
        self._begin = begin
        self._end = end
        self._stopping = threading.Event()
        self._covered = 0
        self._started = time.monotonic_ns()
        self._turn = (
            threading.Lock()
        )  # held while a window is open, or while the program's own profiler runs
        self.take_turn = (
            self._turn.release
        )  # to be called when the program's own profiler has finished
        self._wanted = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"cutaway-{name}", daemon=True
        )
        opened[name] = self
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._wanted.set()
        self._thread.join()
        total = time.monotonic_ns() - self._started
        if total:
            share = 100 * self._covered / total
        else:
            share = 0.0
        covered = f"{share:.1f} % of {total / 1e9:.1f} s"
        _recorder.note(
            f"{self._name} recorded device work in windows that cover {covered}"
        )

    def is_ours(self) -> bool:
        """Whether the calling thread is the one that opens windows."""
        return threading.get_ident() == self._thread.ident

    def give_way(self) -> None:
        """End the open window and open no other one until `take_turn`; any thread may call either."""
        self._wanted.set()
        self._turn.acquire()
        if not self._stopping.is_set():
            self._wanted.clear()

    def _run(self) -> None:
        while not self._stopping.is_set():
            if self._wanted.is_set():
                time.sleep(0.001)  # the program's profiler is about to take its turn
                continue
            with self._turn:
                if not self._stopping.is_set():
                    self._window()

    def _window(self) -> None:
        try:
            loaded = library.load()
            outside = (
                loaded is not None and loaded.cutaway_devices_outside()
            )  # of `--window`, or beyond a limit
            if outside:
                capture = None
            else:
                capture = self._begin()
            if capture is None:  # nothing to look at yet, or nothing is recorded
                self._wanted.wait(0.1)
                return
            started = time.monotonic_ns()
            self._wanted.wait(SECONDS)
            ended = time.monotonic_ns()
            self._end(capture)
            self._covered += ended - started
        except Exception as error:  # the other profiler refused: the program goes on, the report says so
            _recorder.note(
                f"{self._name} cannot record here: {type(error).__name__}: {error}"
            )
            self._stopping.set()
