"""A thread of the recorder inside the program: nothing it does is recorded."""

from __future__ import annotations

import threading

from cutaway import _recorder


class OwnThread(threading.Thread):
    """Excluded before `threading` itself waits or signals in it for the first time."""

    def _bootstrap(self) -> None:
        _recorder.leave_thread()
        super()._bootstrap()  # type: ignore[misc]
