"""cutaway run: start a program with recording switched on, and stay out of its way.

The program is a child with the same standard streams, working directory and signals; it ends as it would have
ended, and so do we. All we say goes to stderr.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.commands import UsageError, need_recorder, say
from cutaway.errors import CutawayError
from cutaway.record import devices, storage
from cutaway.record import folder as folders
from cutaway.record.options import OPTIONS, VARIABLE, Option, Options
from cutaway.reports.text import nearby, plural

if TYPE_CHECKING:
    from cutaway.reports.metrics import Follower

HELP = "record a training program: a script, -m MODULE, or any command"

# Stopping and continuing reach the child from the terminal as they reach us; these we pass on.
FORWARDED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGALRM,
}
SENT_BY_KERNEL = 0x80  # si_code of what a terminal sends to the whole group: the child has it already


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.usage = "cutaway run [options] train.py [args …] | -m module [args …] | command [args …]"
    add(
        "-o",
        "--output",
        metavar="NAME.cutaway",
        help="folder of the run (default: script, date and time)",
    )
    add_options(parser, OPTIONS)
    everywhere = (
        "record the workers on all nodes of a Ray cluster, each on its own disk"
    )
    add("--ray", action="store_true", help=everywhere)
    in_place = "with --ray: leave what nodes recorded there, for show ray://…"
    add("--in-place", action="store_true", help=in_place)
    add(
        "-q",
        "--quiet",
        action="store_true",
        help="print nothing unless something is wrong",
    )
    module = "run a module, as python -m does"
    add("-m", metavar="MODULE", dest="module", nargs=argparse.REMAINDER, help=module)
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """The flags of some options of a recording; `chosen` reads them."""
    for option in options:
        about: dict[str, Any] = {
            "dest": option.name,
            "default": argparse.SUPPRESS,
            "help": option.help,
        }
        if isinstance(option.default, bool):
            about |= {"action": "store_const", "const": not option.default}
        elif isinstance(option.default, tuple):
            about |= {"action": "append", "metavar": option.example}
        else:
            about |= {"type": checked(option.read), "metavar": option.example}
        if option.flag:
            parser.add_argument(option.flag, **about)
        if option.was:
            old = "--" + option.was.replace("_", "-")
            parser.add_argument(old, **about | {"help": argparse.SUPPRESS})


def chosen(args: argparse.Namespace) -> dict[str, Any]:
    """The values of the recording flags, by option."""
    given = {
        option.name: vars(args)[option.name]
        for option in OPTIONS
        if option.name in args
    }
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in given.items()
    }


def checked(read: Callable[[str], float]) -> Callable[[str], float]:
    """A type for argparse that reports why `read` refuses a text."""

    def value(text: str) -> float:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return value


def run(args: argparse.Namespace) -> int:
    need_recorder()
    if args.in_place and not args.ray:
        raise UsageError(
            "--in-place goes with --ray: only the parts of a Ray cluster can stay on their nodes."
        )
    command = _command(args)
    path = Path(args.output or folders.default_name(command)).absolute()
    if args.ray:
        local = {"local": storage.scratch(str(path)), "mover": False}
    else:
        local = {}
    options = Options(str(path), **chosen(args) | local)
    follower = None
    if options.metrics:
        from cutaway.reports import metrics

        follower = metrics.Follower(path, metrics.sinks(options.metrics, path))
    environment = {
        name: value for name, value in os.environ.items() if name != VARIABLE
    }
    try:
        make_folder(command, options)
    except OSError as error:  # the training matters more
        reason = f"{nearby(path)} cannot be created ({error.strerror})"
        say(f"running without recording: {reason}; choose another folder with -o")
        return _end_as(_supervise(command, environment, None))
    calibrate(path, args.quiet)
    environment[VARIABLE] = options.to_text()
    environment |= devices.environment(options.collector, environment)
    if args.ray:
        environment["RAY_RUNTIME_ENV_HOOK"] = "cutaway.ray.add"
    if not args.quiet:
        say(f"recording into {nearby(path)}")
    status = _supervise(command, environment, follower)
    _finish(path, status, args)
    return _end_as(status)


def _command(args: argparse.Namespace) -> list[str]:
    if args.module:
        return [sys.executable, "-m", *args.module]
    words: list[str] = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not words:
        raise UsageError("nothing to run; write: cutaway run train.py")
    if _is_python(Path(words[0])):
        return [sys.executable, *words]
    if shutil.which(words[0]) is None:
        if Path(words[0]).suffix == ".py":
            raise UsageError(f"there is no file {words[0]}; check the path")
        raise UsageError(
            f"{words[0]} is neither a Python script nor a command; check the path"
        )
    return words


def _is_python(path: Path) -> bool:
    """What `python PATH` would run: a script, a zip file, a folder with __main__.py; not an executable program."""
    if path.is_dir():
        return (path / "__main__.py").exists()
    return path.is_file() and (
        path.suffix in (".py", ".pyc", ".pyz", ".zip") or not os.access(path, os.X_OK)
    )


def make_folder(
    command: list[str], options: Options, source: str = "cutaway run"
) -> Path:
    """Make the run's folder, which must not exist."""
    path = Path(options.folder)
    try:
        folders.create(path, command, options, source)
    except FileExistsError:
        reason = f"{nearby(path)} already exists, and Cutaway never overwrites a run"
        raise UsageError(
            f"{reason}; choose another name with -o or remove it"
        ) from None
    return path


def calibrate(path: Path, quiet: bool) -> None:
    """Keep with the run what an event costs on this machine; measured before the first run of all."""
    from cutaway.calibration import prior

    found = prior.ensure(lambda text: None if quiet else say(text))
    try:
        prior.attach(path, found)
    except OSError as error:
        reason = (
            f"the cost of recording could not be stored in the run ({error.strerror})"
        )
        say(f"{reason}; everything else is recorded")


def _supervise(
    command: list[str], environment: dict[str, str], follower: Follower | None
) -> int:
    """Start the command, pass signals on, and return its wait status."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    try:
        default = {
            signal.SIGPIPE,
            signal.SIGXFSZ,
        }  # Python ignores these; our child must not inherit that
        child = os.posix_spawnp(
            command[0], command, environment, setsigmask=before, setsigdef=default
        )
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        reason = f"{command[0]} cannot be started ({error.strerror})"
        raise CutawayError(f"{reason}; check that you may run it") from None
    if follower is not None:
        follower.start()  # with these signals blocked in its thread, too
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        got = signal.sigwaitinfo(FORWARDED | {signal.SIGCHLD})
        if got.si_signo != signal.SIGCHLD and got.si_code != SENT_BY_KERNEL:
            os.kill(child, got.si_signo)
    if follower is not None:
        follower.stop()
        if follower.failure:
            say(f"not all metrics were written: {follower.failure}")
    return status


def _finish(path: Path, status: int, args: argparse.Namespace) -> None:
    """Gather the parts of the recording, and print its verdict or what to do next. Parts that cannot be
    reached stay where they are and are listed."""
    missing = []
    if not args.in_place and (args.ray or storage.on_network(str(path))):
        from cutaway.cluster.gather import gather

        try:
            missing = gather(
                path, os.environ.get("RAY_ADDRESS", "") if args.ray else "", say
            )
        except (CutawayError, OSError) as error:
            missing = [f"some parts could not be gathered: {error}"]
    if missing:
        missing.append(f"to gather the rest: cutaway gather {nearby(path)}")
    for sentence in missing:
        say(sentence)
    try:
        folders.write_exit(path, status)
    except OSError as error:
        reason = (
            f"the exit code could not be stored in {nearby(path)} ({error.strerror})"
        )
        say(f"{reason}; everything else is recorded")
    if args.in_place:
        address = os.environ.get("RAY_ADDRESS") or "auto"
        say(f"recorded on the nodes; next: cutaway show ray://{address}{path}")
    elif not any(path.glob("p*-*/")) and not any(path.glob("host-*/p*-*/")):
        say(
            f"nothing was recorded in {nearby(path)}: the program ran no Python that has cutaway installed"
        )
    else:
        verdict(path, args.quiet)


def verdict(path: Path, quiet: bool = False) -> None:
    """Print the verdict on a complete recording; with --quiet, only that part of it is missing."""
    try:
        if quiet:
            from cutaway.trace.reader import read_run

            stops = [
                process.stop.why for process in read_run(path).processes if process.stop
            ]
            if stops:
                early = f"recording stopped early in {plural(len(stops), 'process')} ({stops[0]})"
                say(f"{early}; see cutaway show {nearby(path)}")
        else:
            from cutaway.reports.terminal import print_verdict

            print_verdict(path, file=sys.stderr)
    except Exception as error:  # the program has run and its trace is whole; its exit code must not change
        if quiet:
            failed = f"{nearby(path)} cannot be read"
        else:
            failed = "the verdict failed"
        say(
            f"{failed} ({type(error).__name__}: {error}); try: cutaway show -v {nearby(path)}"
        )


def _end_as(status: int) -> int:
    """The program's exit code; or its signal, so that whoever started us sees the same death."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(
        resource.RLIMIT_CORE, (0, 0)
    )  # one core file, the program's, is enough
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)  # the signal is on its way
    return 128 + number
