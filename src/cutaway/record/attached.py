"""Recording a program that was running already (`cutaway attach`), in that program.

It begins and ends on the main thread. It ends, and everything is put back, when the command that asked for it hangs up or is
gone. Processes forked meanwhile are recorded too: they inherit the connection, and end when it does.
"""

from __future__ import annotations

import os
from functools import cache
from socket import socket

from cutaway import _recorder
from cutaway.record import session
from cutaway.record.options import Options

_talk: socket | None = None  # while this process is attached to
_speaker = 0  # the process that answers


def begin(talk: socket, text: str) -> None:
    """Record this process with the options in `text`, as long as the other end of `talk` wants it."""
    global _talk, _speaker
    running = session.active()
    if running is not None:
        raise RuntimeError(
            f"it is recorded already, into {running.folder}; look with `cutaway top`"
        )
    if _recorder.refused:
        raise RuntimeError(_recorder.refused)
    talk.sendall(b"recording\n")  # here already: later it would be part of the run
    session.begin(Options.from_text(text))
    _watch_forks()  # behind the handlers of the session
    _talk = talk
    _speaker = os.getpid()
    _recorder.set_lease(talk.fileno(), _end)


def _end() -> None:
    global _talk
    talk = _talk
    _talk = None
    session.stop()
    if talk is not None:
        try:
            if _speaker == os.getpid():
                talk.sendall(b"done\n")
            talk.close()
        except OSError:  # nobody listens any more
            pass


@cache  # handlers of fork can be registered, never taken back
def _watch_forks() -> None:
    os.register_at_fork(after_in_child=_forked)


def _forked() -> None:
    # A child that will be another program in a moment is left alone.
    if _talk is not None and not _recorder.active():
        _end()
