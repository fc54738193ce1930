"""Tokens a language model generated, written into the log at most ten times a second."""

from __future__ import annotations

import atexit
import time

from cutaway import _recorder

PAUSE_NS = 100_000_000

_waiting = 0
_written_ns = 0


def count_tokens(count: int) -> None:
    global _waiting
    if not _written_ns:
        atexit.register(flush)
    _waiting += count
    if time.monotonic_ns() - _written_ns >= PAUSE_NS:
        flush()


def flush() -> None:
    global _waiting, _written_ns
    _written_ns = time.monotonic_ns()
    if _waiting:
        _recorder.log("tokens", f'{{"n":{_waiting},"t":{_written_ns}}}')
    _waiting = 0
