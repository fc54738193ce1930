"""Recording on a Ray cluster: every worker of every node records on its own node.

    import cutaway.ray
    ray.init(runtime_env=cutaway.ray.runtime_env("train.cutaway"))

`cutaway run --ray train.py` does the same without a change of the program. Cutaway must be installed on all nodes.
`cutaway gather train.cutaway` brings the parts together.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from cutaway.errors import CutawayError
from cutaway.record import folder, session, storage
from cutaway.record.options import VARIABLE, Options


def runtime_env(run: str = "", **options: Any) -> dict[str, Any]:
    """What `ray.init(runtime_env=…)` needs to record all workers; this process is recorded from here on, too.

    In a program started by `cutaway run`, that run goes on and `run` is not used.
    """
    if VARIABLE not in os.environ:
        path = str(Path(run or folder.default_name(sys.orig_argv)).absolute())
        chosen = Options(path, local=storage.scratch(path), mover=False, **options)
        try:
            folder.create(Path(path), sys.orig_argv, chosen, "ray")
        except OSError as error:
            reason = f"{path} cannot be created ({error.strerror})"
            raise CutawayError(f"{reason}; choose another folder") from None
        os.environ[VARIABLE] = chosen.to_text()
        chosen.folder = storage.place(chosen)
        session.start(chosen)
    return add({})


def add(runtime_env: dict[str, Any] | None) -> dict[str, Any]:
    """The same environment, recorded. Ray calls this in `ray.init` of a program under `cutaway run --ray`."""
    given = dict(runtime_env or {})
    if told := os.environ.get(VARIABLE):
        given["env_vars"] = {VARIABLE: told, **given.get("env_vars", {})}
    return given
