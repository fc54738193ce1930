"""The figures that `cutaway run --metrics wandb` finds go to the program's own W&B run, if it has one.

They have an axis of their own and never start a step of the program's run: they are added to its next row.
"""

from __future__ import annotations

import _thread
import json
import os
import sys
import time

from cutaway import _recorder
from cutaway.record.imports import Any, when_imported
from cutaway.record.options import Options

EVERY_S = 1.0
AXIS = "cutaway/seconds"

_session = 0  # a thread of an earlier recording ends


def install(options: Options) -> None:
    """Follow the figures in a thread of its own, once the program has imported wandb."""
    path = os.path.join(options.folder, "metrics.json")
    when_imported(
        "wandb",
        lambda wandb: _thread.start_new_thread(_follow, (wandb, path, _session)),
    )


def remove() -> None:
    """End that thread."""
    global _session
    _session += 1


def _follow(wandb: Any, path: str, mine: int) -> None:
    _recorder.leave_thread()
    known = 0
    logged = None
    while mine == _session and not sys.is_finalizing():
        time.sleep(EVERY_S)
        try:
            written = os.stat(path).st_mtime_ns
            run = wandb.run
            if written == known or run is None:
                continue
            if run is not logged:
                run.define_metric("cutaway/*", step_metric=AXIS)
                logged = run
            with open(path, encoding="utf-8") as file:
                figures = json.load(file)
            run.log(
                {f"cutaway/{name}": value for name, value in figures.items()},
                commit=False,
            )
            known = written
        except FileNotFoundError:
            continue
        except Exception as error:  # the run has ended, or its library changed under us
            _recorder.note(
                f"wandb refused the figures: {type(error).__name__}: {error}"
            )
            return
