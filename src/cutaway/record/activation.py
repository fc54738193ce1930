"""Recording switched on by the environment. `cutaway.pth` imports this in every Python that has CUTAWAY set.

Launchers' own helper processes are left alone: they do none of the training's work. The fork server is, too, but
what it forks is not.
"""

from __future__ import annotations

import os
import sys
from functools import partial

from cutaway.record.options import VARIABLE, Options

HELPERS = (
    "multiprocessing.resource_tracker",
    "loky.backend.resource_tracker",
    "/ray/dashboard/",
    "/ray/_private/log_monitor",
    "/ray/_private/runtime_env/",
    "/ray/_private/workers/setup_worker",  # it becomes the worker, by exec
    "/ray/autoscaler/",
)
FORK_SERVER = "multiprocessing.forkserver"


def activate() -> None:
    """Start recording this process, unless it is a launcher's helper."""
    command = " ".join(sys.orig_argv[1:4])
    if any(word in command for word in HELPERS):
        return
    if FORK_SERVER in command:
        os.register_at_fork(
            after_in_child=partial(_start_served, os.getpid(), os.getppid())
        )
    else:
        _start()


def _start_served(server: int, client: int) -> None:
    """In a child of the fork server. The server is not part of the run, so the parent is the process that started it."""
    _start()
    if os.getppid() == server:
        from cutaway import _recorder

        _recorder.log("rename", f'{{"ppid":{client}}}')


def _start() -> None:
    text = os.environ.get(VARIABLE)
    if not text:
        return
    from cutaway import _recorder

    if _recorder.refused:
        if _recorder.first_refusal:  # said once in a process
            print(f"cutaway: {_recorder.refused}", file=sys.stderr)
            _recorder.first_refusal = False
        return
    from cutaway.record import session, storage

    options = Options.from_text(text)
    if options.mover and not os.path.isdir(options.folder):
        # CUTAWAY was set by hand: the first process makes the folder.
        from cutaway.record import folder

        try:
            folder.create(options.folder, sys.orig_argv, options, "environment")
        except FileExistsError:
            pass
        except OSError as error:
            text = (
                f"not recorded: {options.folder} cannot be created ({error.strerror})"
            )
            print(f"cutaway: {text}", file=sys.stderr)
            return
    options.folder = storage.place(options)
    session.start(options)


def _reason(error: Exception) -> str:
    if not isinstance(error, ImportError):
        return str(error)
    from cutaway.installed import explain

    return explain(error) or str(error)


try:
    activate()
except Exception as error:  # nothing of ours may keep a program from starting
    print(
        f"cutaway: process {os.getpid()} is not recorded: {_reason(error)}",
        file=sys.stderr,
    )
