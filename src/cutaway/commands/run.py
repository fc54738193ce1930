"""cutaway run: start a program with recording switched on, and get out of its way.

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

from cutaway.commands import UsageError, say
from cutaway.errors import CutawayError
from cutaway.record import devices, places
from cutaway.record import folder as folders
from cutaway.record.options import OPTIONS, VARIABLE, Option, Options
from cutaway.reports.text import nearby

if TYPE_CHECKING:
    from cutaway.reports.metrics import Follower

HELP = "record a training program: a script, -m MODULE, or any command"

# Stopping and continuing reach the child from the terminal as they reach us; these we pass on.
FORWARDED = {
    signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
}  # fmt: skip
SENT_BY_KERNEL = 0x80  # si_code of what a terminal sends to the whole group: the child has it already


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    parser.usage = "cutaway run [options] train.py [args …] | -m module [args …] | command [args …]"
    add("-o", "--output", metavar="NAME.cutaway", help="folder of the run (default: script, date and time)")
    add_options(parser, OPTIONS)
    everywhere = "record the workers on all nodes of a Ray cluster, each on its own disk"
    add("--ray", action="store_true", help=everywhere)
    in_place = "with --ray: leave what nodes recorded there, for show ray://…"
    add("--in-place", action="store_true", help=in_place)
    add("-q", "--quiet", action="store_true", help="print nothing unless something is wrong")
    module = "run a module, as python -m does"
    add("-m", metavar="MODULE", dest="module", nargs=argparse.REMAINDER, help=module)
    add("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(args: argparse.Namespace) -> int:
    if args.in_place and not args.ray:
        raise UsageError(
            "--in-place goes with --ray: only the parts of a Ray cluster can stay on their nodes."
        )
    command = _command(args)
    options = _options(args, command)
    environment = dict(os.environ)
    environment.pop(VARIABLE, None)
    follower = _follower(options)
    path = _make_folder(command, options)
    if path is not None:
        calibrate(path, args.quiet)
        environment[VARIABLE] = options.to_text()
        environment |= devices.environment(options.device, environment)
        if args.ray:
            environment["RAY_RUNTIME_ENV_HOOK"] = "cutaway.ray.add"
        if not args.quiet:
            say(f"recording into {nearby(path)}")
    status = _supervise(command, environment, follower if path is not None else None)
    if path is not None and args.in_place:
        _stay(path, status)
    elif path is not None:
        _gather(path, args.ray)
        _finish(path, status, args.quiet)
    return _end_as(status)


def add_options(parser: argparse.ArgumentParser, options: Iterable[Option]) -> None:
    """The flags of some options of a recording."""
    add = parser.add_argument
    for option in options:
        if option.flag and isinstance(option.default, bool):
            add(option.flag, dest=option.name, action="store_true", help=option.help)
        elif option.flag:
            many = isinstance(option.default, tuple)
            add(
                option.flag, dest=option.name, metavar=option.example, help=option.help,
                type=str if many else checked(option.read), action="append" if many else "store",
            )  # fmt: skip


def chosen(args: argparse.Namespace) -> dict[str, Any]:
    """What the flags of a recording say, by option."""
    given = [(option, getattr(args, option.name, None)) for option in OPTIONS if option.flag]
    return {o.name: _chosen(o, value) for o, value in given if value is not None and value is not False}


def checked(read: Callable[[str], float]) -> Callable[[str], float]:
    def value(text: str) -> float:
        try:
            return read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return value


def _command(args: argparse.Namespace) -> list[str]:
    if args.module:
        return [sys.executable, "-m", *args.module]
    words: list[str] = args.program[1:] if args.program[:1] == ["--"] else args.program
    if not words:
        raise UsageError("nothing to run; write: cutaway run train.py")
    if _is_python(words[0]):
        return [sys.executable, *words]
    if shutil.which(words[0]) is None:
        if Path(words[0]).suffix == ".py":
            raise UsageError(f"there is no file {words[0]}; check the path")
        raise UsageError(f"{words[0]} is neither a Python script nor a command; check the path")
    return words


def _is_python(word: str) -> bool:
    """What `python WORD` would run: a script, a zip file, a folder with __main__.py; not an executable program."""
    path = Path(word)
    if path.is_dir():
        return (path / "__main__.py").exists()
    return path.is_file() and (path.suffix in (".py", ".pyc", ".pyz", ".zip") or not os.access(path, os.X_OK))


def _options(args: argparse.Namespace, command: list[str]) -> Options:
    path = str(Path(args.output or folders.default_name(command)).absolute())
    local = {"local": places.scratch(path), "mover": False} if args.ray else {}
    return Options(path, **chosen(args) | local)


def _chosen(option: Option, given: Any) -> Any:
    """What a flag means: one that switches something off says no to it."""
    if isinstance(option.default, bool):
        return not option.default
    return tuple(given) if isinstance(option.default, tuple) else given


def make_folder(command: list[str], options: Options, source: str = "cutaway run") -> Path:
    """Make the run's folder, which must not exist."""
    path = Path(options.folder)
    try:
        folders.create(path, command, options, source)
    except FileExistsError:
        remedy = "choose another name with -o or remove it"
        raise UsageError(
            f"{nearby(path)} already exists, and Cutaway never overwrites a run; {remedy}"
        ) from None
    return path


def _make_folder(command: list[str], options: Options) -> Path | None:
    """The run's folder; None, and a sentence, if it cannot be made: the training matters more."""
    path = Path(options.folder)
    try:
        return make_folder(command, options)
    except OSError as error:
        say(
            f"running without recording: {nearby(path)} cannot be created ({error.strerror}); choose another folder with -o"
        )
        return None


def calibrate(path: Path, quiet: bool) -> None:
    """Keep with the run what an event costs on this machine; measured before the first run of all."""
    from cutaway.calibration import prior

    found = prior.ensure(lambda text: None if quiet else say(text))
    try:
        prior.attach(path, found)
    except OSError as error:
        say(
            f"the cost of recording could not be stored in the run ({error.strerror}); everything else is recorded"
        )


def _follower(options: Options) -> Follower | None:
    """What hands figures on while the program runs."""
    if not options.metrics:
        return None
    from cutaway.reports import metrics

    path = Path(options.folder)
    return metrics.Follower(path, metrics.sinks(options.metrics, path))


def _supervise(command: list[str], environment: dict[str, str], follower: Follower | None) -> int:
    """Start the command, pass signals on, and return its wait status."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED | {signal.SIGCHLD})
    try:
        default = {signal.SIGPIPE, signal.SIGXFSZ}  # Python ignores these; our child must not inherit that
        child = os.posix_spawnp(command[0], command, environment, setsigmask=before, setsigdef=default)
    except OSError as error:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise CutawayError(
            f"{command[0]} cannot be started ({error.strerror}); check that you may run it"
        ) from None
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


def _gather(path: Path, from_ray: bool) -> None:
    """What was recorded on local disks comes to the run's folder; what cannot come stays where it is, and is named."""
    if not from_ray and not places.on_network(str(path)):
        return
    from cutaway.commands.gather import gather

    try:
        missing = gather(path, os.environ.get("RAY_ADDRESS", "") if from_ray else "")
    except (CutawayError, OSError) as error:
        missing = [f"some parts could not be gathered: {error}"]
    for sentence in missing:
        say(sentence)
    if missing:
        say(f"to gather the rest: cutaway gather {nearby(path)}")


def _stay(path: Path, status: int) -> None:
    """The parts stay on their nodes."""
    _write_exit(path, status)
    address = os.environ.get("RAY_ADDRESS") or "auto"
    say(f"recorded on the nodes; next: cutaway show ray://{address}{path.absolute()}")


def _write_exit(path: Path, status: int) -> None:
    try:
        folders.write_exit(path, status)
    except OSError as error:
        say(
            f"the exit code could not be stored in {nearby(path)} ({error.strerror}); everything else is recorded"
        )


def _finish(path: Path, status: int, quiet: bool) -> None:
    _write_exit(path, status)
    if not any(path.glob("p*-*/")) and not any(path.glob("host-*/p*-*/")):
        say(f"nothing was recorded in {nearby(path)}: the program ran no Python that has cutaway installed")
    elif quiet:
        _say_stops(path)
    else:
        verdict(path)


def _say_stops(path: Path) -> None:
    """Also a quiet run says that its recording is not whole."""
    try:
        from cutaway.reports.text import plural
        from cutaway.trace.reader import read_run

        stops = [process.stop for process in read_run(path).processes if process.stop]
    except Exception as error:  # as below
        say(f"{nearby(path)} cannot be read ({type(error).__name__}: {error})")
        return
    if stops:
        say(
            f"recording stopped early in {plural(len(stops), 'process')} ({stops[0].why}); see cutaway show {nearby(path)}"
        )


def verdict(path: Path) -> None:
    """Print the verdict on a recording that is complete."""
    try:
        from cutaway.reports.terminal import print_verdict
    except ImportError:
        say(f"recorded into {nearby(path)}; next: cutaway show {nearby(path)}")
        return
    try:
        print_verdict(path, file=sys.stderr)
    except Exception as error:  # the program has run and its trace is whole; its exit code must not change
        say(f"the verdict failed ({type(error).__name__}: {error}); try: cutaway show -v {nearby(path)}")


def _end_as(status: int) -> int:
    """The program's exit code; or its signal, so that whoever started us sees the same death."""
    if not os.WIFSIGNALED(status):
        return os.waitstatus_to_exitcode(status)
    number = os.WTERMSIG(status)
    sys.stdout.flush()
    sys.stderr.flush()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # one core file, the program's, is enough
    if number not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    time.sleep(1)  # the signal is on its way
    return 128 + number
