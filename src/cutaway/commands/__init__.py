"""The command line. Every verb of `VERBS` is a module beside this one with HELP, add_arguments(parser) and run(args).

A package of its own adds a verb by an entry point of the group `cutaway.verbs`, which names such a module.

Only CutawayError is turned into a sentence; anything else is a bug of ours and keeps its traceback.
Exit codes, which `run` returns unless it is 0: 0 fine, 1 failure or regression, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import codecs
import errno
import importlib
import io
import os
import sys
from contextlib import suppress
from keyword import iskeyword
from pathlib import Path
from types import ModuleType

from cutaway.errors import CutawayError

VERBS = "run attach show report what-if diff compare export import query top gather calibrate doctor mcp agent".split()
"""In the order in which people use them."""
APART = {"balance": "cutaway-balance"}
"""Verbs that are in a package of their own, which may not be installed."""
ABOUT = "A profiler for deep reinforcement learning: every operation, layer and process of a training run."


class UsageError(CutawayError):
    """The command line is wrong; exit code 2."""


def write_page(path: Path, page: str) -> None:
    """Write a page that only you can read; one sentence where that fails."""
    from cutaway.trace.files import write_private

    try:
        write_private(path, page)
    except OSError as error:
        reason = f"{path} cannot be written ({error.strerror})"
        raise CutawayError(f"{reason}; choose another file with -o.") from error


def need_recorder() -> None:
    """A sentence where this Python cannot be recorded."""
    from cutaway import _recorder

    if _recorder.refused:
        raise CutawayError(_recorder.refused)


def say(text: str) -> None:
    """A message on stderr, beside what the command prints."""
    print(f"cutaway: {text}", file=sys.stderr)


def build_parser(words: list[str]) -> argparse.ArgumentParser:
    """The parser; only the verb that is asked for is imported, so that `cutaway run` starts at once."""
    from cutaway import __version__

    start = "Start with: cutaway run train.py"
    parser = argparse.ArgumentParser(prog="cutaway", description=ABOUT, epilog=start)
    parser.add_argument("--version", action="version", version=f"cutaway {__version__}")
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="show the traceback of an error"
    )
    subparsers = parser.add_subparsers(dest="verb", metavar="VERB")
    asked = next((w for w in words if not w.startswith("-")), None)
    for verb, module in _modules(asked).items():
        sub = subparsers.add_parser(verb, help=module.HELP, description=module.HELP)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    return parser


def _modules(asked: str | None) -> dict[str, ModuleType]:
    """The module of the verb that is asked for; all of them where there is no such verb."""
    if asked in VERBS:
        return {asked: _own(asked)}
    apart = verbs_apart()
    if asked in apart:
        return {asked: importlib.import_module(apart[asked])}
    if asked in APART:
        package = APART[asked]
        folder = package.removeprefix("cutaway-")
        raise CutawayError(
            f"`cutaway {asked}` is a package of its own: install it with `pip install {package}`, "
            f"or in a clone of Cutaway with `pip install ./packages/{folder}`."
        )
    found = {verb: _own(verb) for verb in VERBS}
    for verb, home in apart.items():
        with suppress(ImportError):  # the others work without it
            found[verb] = importlib.import_module(home)
    return found


def _own(verb: str) -> ModuleType:
    """The module beside this one; words that Python has reserved (import) carry an underscore in its name."""
    file = verb.replace("-", "_") + "_" * iskeyword(verb)
    return importlib.import_module(f"{__name__}.{file}")


def verbs_apart() -> dict[str, str]:
    """The verbs that installed packages add, and their modules; nothing of these is imported."""
    from importlib.metadata import entry_points  # takes time that `cutaway run` saves

    found = {entry.name: entry.value for entry in entry_points(group="cutaway.verbs")}
    return dict(sorted(found.items()))


def spell_in_ascii() -> None:
    """Where the terminal cannot show our signs (`LC_ALL=C`), spell them in ASCII instead of failing."""
    from cutaway.reports.text import ascii_only

    def spell(error: UnicodeError) -> tuple[str, int]:
        if not isinstance(error, UnicodeEncodeError):
            raise error
        text = ascii_only(error.object[error.start : error.end])
        return text.encode("ascii", "backslashreplace").decode(), error.end

    codecs.register_error("cutaway", spell)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ) and not stream.encoding.lower().startswith("utf"):
            stream.reconfigure(errors="cutaway")


def main(words: list[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if words is None:
        words = sys.argv[1:]
    try:
        return _main(words)
    except ImportError as error:
        from cutaway.installed import explain

        sentence = explain(error)
        if sentence is None or "-v" in words or "--verbose" in words:
            raise
        say(sentence)
        return 1


def _main(words: list[str]) -> int:
    spell_in_ascii()
    try:
        parser = build_parser(words)
    except CutawayError as error:
        say(str(error))
        return 1
    args = parser.parse_args(words)
    if args.verb is None:
        parser.print_help()
        return 2
    try:
        code: int | None = args.run(args)
        sys.stdout.flush()
        return code or 0
    except CutawayError as error:
        if args.verbose:
            raise
        say(str(error))
        if isinstance(error, UsageError):
            return 2
        return 1
    except BrokenPipeError:
        # The reader of our output went away (`cutaway show RUN | head`): nobody is left to read it.
        sys.stderr.close()
        return 1
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None or args.verbose:
            raise
        say(
            f"the output cannot be written ({error.strerror}); send it to a disk with space left."
        )
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), 1
        )  # what is still in the buffer cannot be written
        return 1
    except KeyboardInterrupt:
        return 130
