"""Which process is which: names and roles from what is known at the start, roles again from what a process does,
the versions of its libraries, and the fate of its children. Nothing here is on a hot path.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache, partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks import cards
from cutaway.record.frameworks.hooks import Rule, instrument, replace
from cutaway.record.imports import Any, when_imported
from cutaway.record.options import Options
from cutaway.vocabulary import OPERATIONS

# A process named so, or so and a number, has said its role.
ROLES = ("learner", "actor", "inference", "evaluation")

# What torchrun, Slurm, Open MPI and MPICH say: which of how many.
RANKS = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)

NUMBERS = (
    "num",
    "rank",
    "index",
    "worker_id",
    "actor_id",
)  # arguments that number a process among its like

# Libraries beside those with a card that decide what a run's figures mean: their versions are logged as they are imported.
PACKAGES = "jaxlib flax optax numpy sb3_contrib sbx ale_py mujoco Box2D pyspiel".split()

_done: set[str] = set()  # operations this process has opened
_named_role = ""  # a role that is known, not guessed
_reported: set[int] = set()  # children whose end has been logged


def program() -> str:
    """The script, module or command this process runs, without its arguments."""
    words = sys.orig_argv[1:]
    for place, word in enumerate(words):
        if word in ("-m", "-c"):
            if word == "-m" and place + 1 < len(words):
                module = words[place + 1]
            else:
                module = ""
            if module:
                return f"-m {module}"
            return "-c"
        if not word.startswith("-"):
            return word
    return sys.executable.rpartition("/")[2]


def describe() -> tuple[str, str]:
    """Name and role of this process, as far as its command line and its launcher show them."""
    words = program()
    if "torchrun" in words or words.startswith("-m torch.distributed"):
        return "torchrun", "launcher"
    for rank, among in RANKS:
        if rank in os.environ and os.environ.get(among, "1") != "1":
            return f"rank {os.environ[rank]}", ""
    if "default_worker.py" in words:
        return "ray worker", ""
    return words.removeprefix("-m ").rpartition("/")[2].removesuffix(
        ".py"
    ) or "python", ""


def install(options: Options) -> None:
    """Follow what this process does and which processes it starts, and correct name and role in forked ones."""
    _recorder.on_first_operation(_first)
    for name in (*cards.packages(), *PACKAGES):
        when_imported(name, _tell_version)
    when_imported("multiprocessing.process", _multiprocessing)
    Rule("multiprocessing.popen_forkserver", "Popen", "poll", on_exit=_polled).install()
    loads_data = partial(set_role, "data loader")
    Rule(
        "torch.utils.data._utils.worker", "", "_worker_loop", on_enter=loads_data
    ).install()


@cache  # handlers of fork can be registered, never taken back
def watch_forks() -> None:
    """To be called before the recorder starts. It starts its threads again after a fork, which must come after any Python code
    of ours: Python 3.13.0 counts the threads, to warn of them, only when all these handlers have run."""

    def forking() -> None:
        # subprocess forks to become another program at once, which records itself if it is Python.
        _recorder.leave_children(sys._getframe(1).f_code.co_name == "_execute_child")

    resumed = partial(_recorder.leave_children, False)
    os.register_at_fork(before=forking, after_in_parent=resumed, after_in_child=_forked)


def _forked() -> None:
    """A new process, although Python's state looks the same: it has done nothing yet."""
    global _named_role
    _named_role = ""
    _recorder.set_process(role="")
    _done.clear()
    _reported.clear()
    _recorder.leave_children(False)
    _recorder.on_first_operation(_first)


def _first(operation: int) -> None:
    """Called once for each operation a process opens: its role follows from what it does."""
    _done.add(tuple(OPERATIONS)[operation - 1])
    if role := _named_role or _guess():
        _recorder.set_process(role=role)
    if behaviour := sys.modules.get("cutaway.record.frameworks.behaviour"):
        behaviour.look_again()


def _guess() -> str:
    acts = not _done.isdisjoint(("inference", "search", "generation"))
    if "backpropagation" in _done:
        return "learner"
    if "simulation" in _done:
        if acts:
            return "actor"
        return "env worker"
    if acts:
        return "inference"
    if "evaluation" in _done:
        return "evaluation"
    return ""


def _multiprocessing(module: ModuleType) -> None:
    instrument(module.BaseProcess, "_bootstrap", None, on_enter=_named, on_exit=_ended)
    name = module.BaseProcess.name

    def rename(process: Any, value: str) -> None:
        name.fset(process, value)
        if process is module.current_process():  # a main process that says what it is
            _named(process)

    replace(module.BaseProcess, "name", name.setter(rename))


def _named(process: Any) -> None:
    name = own_name(process)
    role = name.rstrip("0123456789").rstrip("-_ ").replace("evaluator", "evaluation")
    _recorder.set_process(name=name, **({"role": role} if role in ROLES else {}))
    _recorder.active()  # a process that does nothing special still belongs to the run


def own_name(process: Any) -> str:
    """`Process-3` says nothing; `actor-0` does: the target's name, with its number if it is given one."""
    kind, _, number = process.name.partition("-")
    target = getattr(getattr(process, "_target", None), "__name__", "")
    if (
        not target
        or not kind.endswith("Process")
        or not number.replace(":", "").isdigit()
    ):
        return str(process.name)
    given = (v for k, v in process._kwargs.items() if k in NUMBERS and type(v) is int)
    return f"{target}-{next(given, number)}"


def _ended(process: Any, code: Any) -> None:
    """A multiprocessing child leaves by os._exit, which runs no exit handlers: end the recording here."""
    say_exit(code if isinstance(code, int) else 1)
    _recorder.stop()


def say_exit(code: int | None) -> None:
    """Write the end of this process into its log (below zero: a signal); what is not known here, its parent knows."""
    _recorder.log("exit", f'"t":{time.monotonic_ns()}{_outcome(code)}')


def _polled(popen: Any, code: Any) -> None:
    """Children of the fork server are not ours to wait for, so the hook of waitpid does not see them end."""
    if isinstance(code, int) and popen.pid not in _reported:
        _reported.add(popen.pid)
        _recorder.log(
            "child", f'"pid":{popen.pid},"t":{time.monotonic_ns()}{_outcome(code)}'
        )


def _outcome(code: int | None) -> str:
    if code is None:
        return ""
    if code < 0:
        return f',"signal":{-code}'
    return f',"code":{code}'


def set_role(role: str, *hooked: Any) -> None:
    """The role of this process is known; what it does no longer decides it."""
    global _named_role
    _named_role = role
    _recorder.set_process(role=role)


def _tell_version(module: ModuleType) -> None:
    version = str(getattr(module, "__version__", ""))
    if word := "".join(c for c in version if c.isalnum() or c in ".+-_"):
        _recorder.log("rename", f'"versions":{{"{module.__name__}":"{word}"}}')
