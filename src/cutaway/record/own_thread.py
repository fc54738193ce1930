"""A thread of the recorder's in the program: nothing that it does is recorded."""

from __future__ import annotations

import threading

from cutaway import _recorder


class OwnThread(threading.Thread):
    """Left alone before `threading` itself waits or signals in it for the first time."""

    def _bootstrap(self) -> None:
        _recorder.leave_thread()
        super()._bootstrap()  # type: ignore[misc]
