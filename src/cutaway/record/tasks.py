"""Keeps apart the operations of asyncio's tasks, and of greenlets, that take turns on one thread."""

from __future__ import annotations

import sys
from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.hooks import replace
from cutaway.record.imports import when_imported
from cutaway.record.options import Options


def install(options: Options) -> None:
    when_imported("asyncio.events", follow_tasks)
    when_imported("greenlet", follow_greenlets)


def remove() -> None:
    if greenlet := sys.modules.get("greenlet"):
        leave_greenlets(greenlet)


def follow_tasks(events: ModuleType) -> None:
    """In place until `hooks.restore`; `events` is the module asyncio.events, just imported."""
    import asyncio.tasks

    replace(
        events.Handle,
        "_run",
        _recorder.TaskRunner(events.Handle._run, asyncio.tasks.Task),
    )


def follow_greenlets(greenlet: ModuleType) -> None:
    """Those of this thread; `greenlet` is the module, just imported."""
    if greenlet.gettrace() is None:
        greenlet.settrace(_recorder.switched)
    else:
        _recorder.note(
            "Another tool traces greenlets, so Cutaway cannot; operations of different greenlets may be mixed up."
        )


def leave_greenlets(greenlet: ModuleType) -> None:
    if greenlet.gettrace() is _recorder.switched:
        greenlet.settrace(None)
