"""Recording in this process: started by the environment (`activation`) or by `with cutaway.record(...)`."""

from __future__ import annotations

import atexit
import importlib
import os
import sys

from cutaway import _recorder
from cutaway.errors import CutawayError
from cutaway.record import imports, processes
from cutaway.record.imports import Any
from cutaway.record.options import OPTIONS, Options

# The parts that have `remove()`, in this order.
REMOVED = (
    "gauges",
    "weights_and_biases",
    "device_memory",
    "devices",
    "tasks",
    "frameworks",
    "layers",
)

_options: Options | None = None


def start(options: Options) -> bool:
    """Begin to record this process into the run's folder; False, and a sentence on stderr, if that fails.

    An error in here must never reach the program.
    """
    try:
        if _options is None:
            begin(options)
    except Exception as error:
        _say(f"process {os.getpid()} is not recorded: {error}")
        return False
    return True


def begin(options: Options) -> None:
    """Begin to record this process, which is not recorded yet; OSError if the recorder cannot start."""
    global _options
    processes.watch_forks()
    name, role = processes.describe()
    native = {
        option.name: getattr(options, option.name)
        for option in OPTIONS
        if option.native
    }
    _recorder.start(
        options.folder, name=name, role=role, program=processes.program(), **native
    )
    _options = options
    parts = {  # what is installed in a process, and whether the options ask for it
        "layers": options.layers,
        "frameworks": options.auto,
        "devices": options.collector != "none",
        "device_memory": options.collector != "none",
        "tasks": True,
        "processes": True,
        "weights_and_biases": "wandb" in options.metrics,
        "storage": options.keep_s,
    }
    for part, wanted in parts.items():
        try:
            if wanted:
                importlib.import_module(f"cutaway.record.{part}").install(options)
        except Exception as error:
            _recorder.note(
                f"not everything is recorded: {type(error).__name__}: {error}"
            )
    atexit.register(_at_exit)


def stop() -> None:
    """End the recording of this process and put back everything that was changed."""
    global _options
    if _options is None:
        return
    options = _options
    _options = None
    atexit.unregister(_at_exit)
    imports.forget()
    parts = (sys.modules.get(f"cutaway.record.{part}") for part in REMOVED)
    for remove in (
        *(part.remove for part in parts if part is not None),
        _recorder.stop,
    ):
        try:
            remove()
        except Exception as error:
            _say(
                f"the recording in {options.folder} may be cut off at the end: {error}"
            )


def _at_exit() -> None:
    # An exit code given to sys.exit is not known here; an exception nobody caught is. Ctrl-C counts as its signal.
    error = getattr(sys, "last_value", None)
    processes.say_exit(
        None if error is None else -2 if isinstance(error, KeyboardInterrupt) else 1
    )
    stop()


def _say(text: str) -> None:
    print(f"cutaway: {text}", file=sys.stderr)


def active() -> Options | None:
    """The recording of this process, if there is one."""
    return _options


def layer(module: str, layer: str) -> None:
    """Put a native module of yours into a layer, e.g. `cutaway.layer("mysim", "simulator")`."""
    if not _recorder.refused:
        from cutaway.record import layers

        layers.add(module, layer)


def describe(**facts: Any) -> None:
    """Tell Cutaway facts about this run, such as `cutaway.describe(batch=64, queue=100)`: numbers, strings, booleans.

    They appear in `summary()` and in `--json`, and `cutaway balance` uses those it knows. Nothing happens when nothing records.

    >>> import cutaway
    >>> cutaway.describe(algorithm="PPO", batch=64)
    """
    if _options is None or not _recorder.active():
        return
    try:
        import json

        for name, value in facts.items():
            finite = isinstance(value, float) and value - value == 0
            if not (
                finite or value is None or isinstance(value, int)
            ):  # types that every JSON reader understands
                facts[name] = str(value)[:1000]
        _recorder.log("describe", json.dumps({"facts": facts}))
    except Exception as error:
        _recorder.note(f"cutaway.describe: {type(error).__name__}: {error}")


class Recording:
    """`with cutaway.record("NAME.cutaway"):` records what happens inside, for instance in a notebook cell.

    Not for a program that `cutaway run` records already: there the block is simply part of that run.
    """

    def __init__(self, path: str, **options: Any) -> None:
        self.options = Options(os.path.abspath(path), **options)
        self._mine = False

    def __enter__(self) -> Recording:
        if _options is not None:
            return self
        if _recorder.refused:
            _say(_recorder.refused)
            return self
        from cutaway.record import folder

        path = self.options.folder
        try:
            folder.create(
                path, [sys.executable, *sys.argv], self.options, "cutaway.record"
            )
        except FileExistsError:
            text = f"{path} already exists, and Cutaway never overwrites a run; choose another name"
            raise CutawayError(text) from None
        except OSError as error:
            text = f"{path} cannot be created ({error.strerror}); choose another folder"
            raise CutawayError(text) from None
        self._mine = start(self.options)
        return self

    def __exit__(self, *error: object) -> None:
        if self._mine:
            self._mine = False
            stop()
