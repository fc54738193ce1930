"""cutaway attach: record a program that is already running, and leave it as it was.

The program runs a script of ours on its main thread. That loads Cutaway and connects to a socket here; when the time is over, or
this command is gone, the program puts everything back by itself (`cutaway.record.attached`). Its Python children do the same, also
those that it starts meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import select
import shutil
import signal
import socket
import tempfile
import time
from pathlib import Path

import cutaway
from cutaway import _recorder
from cutaway.commands import UsageError, say
from cutaway.commands.run import (
    add_options,
    calibrate,
    checked,
    chosen,
    make_folder,
    verdict,
)
from cutaway.errors import CutawayError
from cutaway.injection import check, inject, python_children
from cutaway.record.folder import default_name
from cutaway.record.options import OPTIONS, Options, seconds
from cutaway.reports.text import nearby, plural

HELP = "record a Python program that is already running"
NOT_HERE = (
    "window_s",
    "after_iterations",
    "for_iterations",
    "store_arguments",
    "metrics",
)
PATIENCE_S = 5  # then we say what we wait for
MOST_WAITING = 1024  # children that have joined
LOOK_S = 1.0  # so often we look for new children

# Binds no name in the program's __main__, and raises nothing: that would end the program.
LINE = """try:
    exec(__import__("pathlib").Path({begin!r}).read_text(), {{}})
except KeyboardInterrupt:
    __import__("_thread").interrupt_main()
except BaseException:
    pass
"""
BEGIN = """import importlib.machinery, importlib.util, os, socket, sys
talk = socket.socket(socket.AF_UNIX)
talk.connect({address!r})
try:
    if "cutaway" not in sys.modules:
        files = ["_recorder" + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES]
        if not any(os.path.exists(os.path.join(place, file)) for place in {places!r} for file in files):
            raise ImportError("it is Python %d.%d, and Cutaway is not built for that here; "
                "install Cutaway where it runs and attach from there" % sys.version_info[:2])
        spec = importlib.util.spec_from_file_location("cutaway", {init!r}, submodule_search_locations={places!r})
        sys.modules["cutaway"] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules["cutaway"])
    from cutaway.record.attached import begin
    begin(talk, {options!r})
except Exception as error:
    talk.sendall(str(error).encode() + b"\\n")
    talk.close()
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("pid", type=int, metavar="PID", help="the process to record")
    add(
        "--for",
        dest="seconds",
        metavar="30s",
        type=checked(seconds),
        default=30.0,
        help="record this long, then leave the program as it was (default: 30s; Ctrl-C ends it earlier)",
    )
    add(
        "-o",
        "--output",
        metavar="NAME.cutaway",
        help="folder of the run (default: script, date and time)",
    )
    add_options(parser, [option for option in OPTIONS if option.name not in NOT_HERE])
    add(
        "-q",
        "--quiet",
        action="store_true",
        help="print nothing unless something is wrong",
    )


def run(args: argparse.Namespace) -> int:
    if args.pid <= 0 or args.seconds <= 0:
        raise UsageError(
            "PID and --for must be above 0; write: cutaway attach 12345 --for 30s"
        )
    user = check(args.pid)
    command = _command(args.pid)
    options = Options(
        str(Path(args.output or default_name(command)).absolute()), **chosen(args)
    )
    try:
        path = make_folder(command, options, "cutaway attach")
    except OSError as error:
        raise CutawayError(
            f"{options.folder} cannot be created ({error.strerror}); choose another folder with -o."
        ) from None
    try:
        calibrate(path, args.quiet)
        _give(path, user)
        _record(args, options, user)
    finally:
        empty = not any(path.glob("p*-*/")) and not any(path.glob("host-*/"))
        if empty:
            shutil.rmtree(path, ignore_errors=True)
    if empty:
        say("nothing was recorded")
    elif not args.quiet:
        verdict(path)
    return 0


def _command(pid: int) -> list[str]:
    words = (
        Path(f"/proc/{pid}/cmdline")
        .read_bytes()
        .decode(errors="replace")
        .split("\0")[:-1]
    )
    return words or [f"process-{pid}"]


def _give(folder: Path, user: int) -> None:
    """What root makes here, the program must be able to use."""
    if user != os.geteuid():
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, -1)


def _record(args: argparse.Namespace, options: Options, user: int) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="cutaway-") as name,
        socket.socket(socket.AF_UNIX) as door,
    ):
        room = Path(name)
        door.bind(str(room / "door"))
        door.listen(MOST_WAITING)
        _write_scripts(room, options)
        _give(room, user)
        inject(args.pid, room / "line.py")
        with _answer(door, args.pid) as talk:
            _follow(talk, door, args, Path(options.folder))


def _write_scripts(room: Path, options: Options) -> None:
    places = [
        str(Path(file).parent)
        for file in (cutaway.__file__, _recorder.__file__)
        if file
    ]
    begin = BEGIN.format(
        address=str(room / "door"),
        places=list(dict.fromkeys(places)),
        init=cutaway.__file__,
        options=options.to_text(),
    )
    (room / "begin.py").write_text(begin)
    (room / "line.py").write_text(LINE.format(begin=str(room / "begin.py")))


def _answer(door: socket.socket, pid: int) -> socket.socket:
    """The connection from the program, which comes when its main thread is next in Python."""
    door.settimeout(0.5)
    said = False
    since = time.monotonic()
    while True:
        try:
            talk = door.accept()[0]
            talk.settimeout(None)
            return talk
        except TimeoutError:
            if not Path(f"/proc/{pid}").exists():
                raise CutawayError(
                    f"Process {pid} ended before it could be recorded."
                ) from None
            if not said and time.monotonic() - since > PATIENCE_S:
                said = True
                say(
                    f"waiting: the main thread of process {pid} is in a native call; recording begins when it returns"
                )


def _follow(
    talk: socket.socket, door: socket.socket, args: argparse.Namespace, path: Path
) -> None:
    """Until the time is over and the program has put everything back; Ctrl-C asks it to do so now."""
    before = signal.signal(signal.SIGINT, lambda number, frame: _hang_up(talk))
    try:
        lines = talk.makefile(encoding="utf-8", errors="replace")
        first = lines.readline().strip()
        if first != "recording":
            raise CutawayError(
                f"Process {args.pid} is not recorded: {first or 'it ended'}."
            )
        room = Path(door.getsockname()).parent
        known = python_children(args.pid)
        children = _inject_into(known, room)
        if not args.quiet:
            if children:
                also = f" and {plural(len(children), 'child process')}"
            else:
                also = ""
            say(
                f"recording process {args.pid}{also} for {args.seconds:g} s into {nearby(path)}; Ctrl-C ends it earlier"
            )
        children += _wait(talk, args, known, room, path)
        _shut(talk)
        last = lines.readline().strip()
        _end_children(door, children, path)
    finally:
        signal.signal(signal.SIGINT, before)
    if last not in ("done", ""):
        raise CutawayError(f"Process {args.pid} is not recorded: {last}.")
    if not last:
        say(f"process {args.pid} ended while it was recorded")
    elif not args.quiet:
        say(f"process {args.pid} continues without Cutaway")


def _wait(
    talk: socket.socket,
    args: argparse.Namespace,
    known: list[int],
    room: Path,
    path: Path,
) -> list[int]:
    """Until the time is over or the program hangs up; the new interpreters below it that were asked to join. One is asked when it is
    seen for the second time: what is forked is recorded already, or may become another program in a moment."""
    until = time.monotonic() + args.seconds
    asked = list[int]()
    seen = set[int]()
    while (left := until - time.monotonic()) > 0 and not select.select(
        [talk], [], [], min(left, LOOK_S)
    )[0]:
        new = {
            child
            for child in python_children(args.pid)
            if child not in known and not _has(path, child)
        }
        known = [*known, *(new & seen)]
        asked += _inject_into(sorted(new & seen), room)
        seen = new
    return asked


def _inject_into(processes: list[int], room: Path) -> list[int]:
    """Asks Python processes to join; names those that cannot be asked, and returns the others."""
    asked = []
    for child in processes:
        try:
            check(child)
            inject(child, room / "line.py")
            asked.append(child)
        except CutawayError as error:
            say(f"a child is not recorded: {error}")
    return asked


def _has(path: Path, pid: int) -> bool:
    return any(path.rglob(f"p{pid}-*"))


def _end_children(door: socket.socket, children: list[int], path: Path) -> None:
    """Lets go of the children that have joined; names the others."""
    talks = []
    door.settimeout(0)
    with contextlib.suppress(BlockingIOError):
        while True:
            talks.append(door.accept()[0])
    for talk in talks:
        _shut(talk)
    for talk in talks:
        with talk, contextlib.suppress(OSError):
            talk.settimeout(PATIENCE_S)
            said = talk.makefile(encoding="utf-8", errors="replace").read().strip()
            if not said.startswith("recording"):
                say(f"a child is not recorded: {said}")
    for child in children:
        if not _has(path, child):
            say(
                f"child process {child} is not recorded: it stayed in one native call, or ended; attach to it separately"
            )


def _hang_up(talk: socket.socket) -> None:
    """Ctrl-C: the program puts everything back when its main thread is next in Python. The next Ctrl-C does not wait for that."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _shut(talk)


def _shut(talk: socket.socket) -> None:
    with contextlib.suppress(OSError):  # the program did
        talk.shutdown(socket.SHUT_WR)
