"""Recording a program that was running already (`cutaway attach`), in that program.

It begins and ends on the main thread. It ends, and everything is put back, when the time is over or when the command that asked
for it is gone: then the connection to it closes. Processes forked meanwhile are left alone.
"""

from __future__ import annotations

import os
from functools import cache
from socket import socket

from cutaway import _recorder
from cutaway.record import processes, session
from cutaway.record.options import Options

_talk: socket | None = None  # while this process is attached to


def begin(talk: socket, text: str, seconds: float) -> None:
    """Record this process with the options in `text`, as long as the other end of `talk` wants it."""
    global _talk
    running = session.active()
    if running is not None:
        raise RuntimeError(f"it is recorded already, into {running.folder}; look with `cutaway top`")
    if _recorder.refused:
        raise RuntimeError(_recorder.refused)
    _watch_forks()
    talk.sendall(b"recording\n")  # here already: later it would be part of the run
    session.begin(Options.from_text(text))
    processes.follow_forks = False
    _talk = talk
    _recorder.set_lease(talk.fileno(), seconds, _end)


def _end() -> None:
    global _talk
    talk, _talk = _talk, None
    session.stop()
    processes.follow_forks = True
    if talk is not None:
        try:
            talk.sendall(b"done\n")
        except OSError:  # nobody listens any more
            pass
        talk.close()


@cache  # handlers of fork can be registered, never taken back
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    global _talk
    if _talk is not None:
        _talk.close()
        _talk = None
        session.stop()
