"""Running a few lines of Python in another process, on its main thread and between two of its own instructions.

Python 3.14 can do this itself (`sys.remote_exec`). Before that a debugger asks the interpreter, through `Py_AddPendingCall`, to
run the lines when it next may. The debugger itself only maps a page and adds the call, so no allocator lock matters,
wherever the process was stopped.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from cutaway.errors import CutawayError

PATIENCE_S = 120  # symbols of a large program on a slow disk
SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")
QUIET = (
    "set auto-solib-add off",
    "set auto-load off",
)  # a trainer has hundreds of libraries; two are needed
MAP = "((char*(*)(void*,unsigned long,int,int,int,long))mmap)(0, {size}, 3, 34, -1, 0)"
ADD = "((int(*)(void*,char*))Py_AddPendingCall)($run, $page)"
NOT_PYTHON = "Process {pid} is not Python, or an unusual build of it: CPython's functions are not in it."
SERVANTS = ("multiprocessing.resource_tracker", "multiprocessing.forkserver")


def check(pid: int) -> int:
    """The user a process belongs to; one sentence if it cannot be attached to."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        raise CutawayError(
            f"There is no process {pid}; find yours with `pgrep -af python`."
        ) from None
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    user = int(status["Uid"].split()[1])
    if os.geteuid() not in (0, user):
        raise CutawayError(
            f"Process {pid} belongs to {_name(user)}; attach as that user or as root."
        )
    if status["State"][0] in "ZX":
        raise CutawayError(f"Process {pid} has ended already; attach to one that runs.")
    if status["TracerPid"] != "0":
        raise CutawayError(
            f"Process {pid} is being debugged by process {status['TracerPid']}; end that first."
        )
    if status["State"][0] == "T":
        raise CutawayError(
            f"Process {pid} is stopped; let it go on with `kill -CONT {pid}`."
        )
    return user


def python_children(pid: int) -> list[int]:
    """The Python processes below a process, but for multiprocessing's own servants."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        parents[int(stat.parent.name)] = int(
            (_text(stat).rpartition(")")[2].split() or "00")[1]
        )
    family = [pid]
    for one in family:
        family += sorted(child for child, parent in parents.items() if parent == one)
    # What the fork server has forked has its command line.
    servants = {
        one
        for one in family
        if _is_servant(one) and not _is_servant(parents.get(one, 0))
    }
    return [
        child for child in family[1:] if child not in servants and _is_python(child)
    ]


def _is_servant(pid: int) -> bool:
    return any(name in _text(Path(f"/proc/{pid}/cmdline")) for name in SERVANTS)


def _is_python(pid: int) -> bool:
    files = (
        line.rpartition("/")[2]
        for line in _text(Path(f"/proc/{pid}/maps")).splitlines()
    )
    return any(name.startswith(("python", "libpython")) for name in files)


def _text(path: Path) -> str:
    """Nothing of a process that is gone."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def inject(pid: int, script: Path) -> None:
    """Have the process run a script as soon as its main thread is in Python. The script must catch every exception of its own."""
    if hasattr(sys, "remote_exec"):
        _remote(pid, script)
    else:
        _debugger(pid, script)


def _remote(pid: int, script: Path) -> None:
    try:
        sys.remote_exec(pid, str(script))  # type: ignore[attr-defined,unused-ignore]
    except PermissionError:
        raise CutawayError(_forbidden(pid)) from None
    except (OSError, RuntimeError) as error:
        raise CutawayError(_why_not(pid, str(error))) from None


def _why_not(pid: int, said: str) -> str:
    if not _is_python(pid):
        return NOT_PYTHON.format(pid=pid)
    if "not enabled" in said:
        how = "start it without PYTHON_DISABLE_REMOTE_DEBUG and -X disable-remote-debug"
        return f"Process {pid} refuses remote debugging; {how}."
    return f"Process {pid} cannot be attached to ({said}); is it the same Python?"


def _debugger(pid: int, script: Path) -> None:
    if gdb := shutil.which("gdb"):
        command = _gdb(gdb, pid, script)
        done = "cutaway: added 0"
    elif lldb := shutil.which("lldb"):
        command = _lldb(lldb, pid, script)
        done = "(int) $0 = 0"
    else:
        raise CutawayError(
            "Attaching needs gdb or lldb; install it, for instance with `apt install gdb`."
        )
    said = _run(command)
    if done not in said:
        raise CutawayError(_why(pid, said))


def _gdb(gdb: str, pid: int, script: Path) -> list[str]:
    commands = (
        "handle all nostop noprint pass",
        "set unwindonsignal on",
        "sharedlibrary libpython",
        "sharedlibrary libc[.-]",
        f"set $page = {MAP.format(size=script.stat().st_size + 1)}",
        f"restore {script} binary $page",
        "set $run = (void*)PyRun_SimpleString",
        f'printf "cutaway: added %d\\n", {ADD}',
    )
    before = _each_after("-iex", QUIET)
    after = _each_after("-ex", commands)
    return [gdb, "-nx", "-batch", *before, "-p", str(pid), *after]


def _lldb(lldb: str, pid: int, script: Path) -> list[str]:
    commands = (
        f"expr char* $page = {MAP.format(size=script.stat().st_size + 1)}",
        f"memory write -i {script} `$page`",
        "expr void* $run = (void*)PyRun_SimpleString",
        f"expr {ADD}",
        "detach",
    )
    after = _each_after("-o", commands)
    return [
        lldb,
        "-x",
        "-b",
        "-O",
        "settings set target.preload-symbols false",
        "-p",
        str(pid),
        *after,
    ]


def _run(command: list[str]) -> str:
    """What the debugger said. It must not be interrupted while it holds the process, so Ctrl-C waits until it is done."""
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    environment = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("PYTHON", "DEBUGINFOD"))
    }
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,
            timeout=PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        raise CutawayError(
            f"The debugger did not come back within {PATIENCE_S} s; try again."
        ) from None
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt
    return done.stdout


def _why(pid: int, said: str) -> str:
    if (
        "not permitted" in said or "Could not attach" in said
    ):  # then no symbol is found either
        return _forbidden(pid)
    if "No symbol" in said or "undeclared identifier" in said:
        return NOT_PYTHON.format(pid=pid)
    last = (said.strip().splitlines() or ["nothing"])[-1]
    return f"The debugger could not attach to process {pid}: {last}"


def _forbidden(pid: int) -> str:
    if os.geteuid() != 0 and SCOPE.is_file() and SCOPE.read_text().strip() != "0":
        remedy = (
            "allow it with `sudo sysctl kernel.yama.ptrace_scope=0`, or attach as root"
        )
    else:
        remedy = "in a container, start that with `--cap-add SYS_PTRACE`"
    return f"The system does not let you attach to process {pid}; {remedy}."


def _name(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"user {user}"


def _each_after(flag: str, texts: Sequence[str]) -> list[str]:
    """The flag before every text, as a debugger's command line has it."""
    words = []
    for text in texts:
        words += [flag, text]
    return words
