"""Formats numbers and names for people; the result is safe to print anywhere."""

from __future__ import annotations

import os
import re

import numpy as np

from cutaway.vocabulary import GIL, LAYERS, NATIVE_CODE

NONE = "(none)"  # shown for time outside any operation
_CONTROL = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
_NUMBER = re.compile(r"[^\w\s]*\d+\W?$")
_ASCII = str.maketrans(
    dict(zip("·—–→±█…×µ≥−", "- - - -> +- # ... x u >= -".split(), strict=True))
)


def clean(name: str) -> str:
    """A name from a trace without anything that could steer a terminal.

    >>> clean("a\\x1b[31mb")
    'a?[31mb'
    """
    return _CONTROL.sub("?", name)


def ascii_only(text: str) -> str:
    """Cutaway's own symbols spelt in ASCII.

    >>> ascii_only("3 ± 1 · a → b")
    '3 +- 1 - a -> b'
    """
    return text.translate(_ASCII)


def operation(name: str) -> str:
    """An operation's name; time outside any operation is called (none)."""
    return clean(name) if name else NONE


SLEEPS = ("time.sleep",)
SLEEP = "sleep"  # what such a call waits on


def blocked_in(on: str) -> str:
    """What a thread was blocked in, where nothing more is known: a sleep, native code, the GIL.

    >>> blocked_in("native code:train.py:12"), blocked_in("GIL:train.py:12"), blocked_in("pipe:3")
    ('native code at train.py:12', 'the GIL', '')
    """
    what, _, where = on.partition(":")
    known = {
        NATIVE_CODE: f"{NATIVE_CODE} at {where}",
        GIL: f"the {GIL}",
        SLEEP: SLEEPS[0],
    }
    return known.get(what, "")


def percent(share: float) -> str:
    """A share of one.

    >>> percent(0.583), percent(0.004), percent(0.0001)
    ('58 %', '0.4 %', '0 %')
    """
    if 0.0005 <= share < 0.0095:
        return f"{share * 100:.1f} %"
    return f"{share * 100:.0f} %"


def layer(name: str) -> str:
    """A layer, short enough for the head of a column.

    >>> layer("simulator"), layer("backend")
    ('simul.', 'backend')
    """
    return (LAYERS[name].short if name in LAYERS else "") or name


def number(value: float) -> str:
    """Three significant digits, no exponent.

    >>> [number(v) for v in (11830, 4.126, 0.0312, 0)]
    ['11830', '4.13', '0.031', '0']
    """
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:.{digits}f}" if value else "0"


def significant(value: float, digits: int = 4) -> str:
    """So many digits, and never an exponent.

    >>> [significant(v) for v in (25370.4, 60.0, 8.5625, 0.00001234, 0)]
    ['25370', '60', '8.562', '0.00001234', '0']
    """
    return np.format_float_positional(
        value, precision=digits, unique=False, fractional=False, trim="-"
    )


def duration(ns: float) -> str:
    """Nanoseconds in the unit that fits.

    >>> duration(63_200_000_000), duration(1_500), duration(252e9)
    ('63.2 s', '1.50 µs', '4m12s')
    >>> duration(16_860e9)
    '4h41m'
    """
    seconds = ns / 1e9
    if seconds >= 7200:
        return f"{int(seconds // 3600)}h{int(seconds % 3600 // 60):02d}m"
    if seconds >= 120:
        return f"{int(seconds // 60)}m{int(seconds % 60):02d}s"
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if seconds * scale >= 1:
            return f"{number(seconds * scale)} {unit}"
    return f"{ns:.0f} ns"


def size(nbytes: float) -> str:
    """Bytes in the unit that fits.

    >>> size(4_200_000), size(900)
    ('4.2 MB', '900 B')
    """
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if nbytes >= scale:
            return f"{nbytes / scale:.1f} {unit}"
    return f"{nbytes:.0f} B"


def plural(count: int, noun: str) -> str:
    """A count with its noun.

    >>> plural(1, "process"), plural(18, "process"), plural(2, "core")
    ('1 process', '18 processes', '2 cores')
    """
    ending = "" if count == 1 else "es" if noun.endswith("s") else "s"
    return f"{count} {noun}{ending}"


def shorten(path: str, width: int) -> str:
    """The end of a path, which says more than its beginning.

    >>> shorten("/a/very/long/path/train.py", 14)
    '…path/train.py'
    """
    if len(path) <= width:
        return path
    return "…" + path[len(path) - width + 1 :]


def nearby(path: str | os.PathLike[str]) -> str:
    """A path relative to the current folder, if it lies below it."""
    relative = os.path.relpath(path)
    if relative.startswith(".."):
        return str(path)
    return relative


def clip(text: str, width: int) -> str:
    """The beginning of a name.

    >>> clip("step[EXTEND bs=15 toks=15360]", 12)
    'step[EXTEND…'
    """
    if len(text) <= width:
        return text
    return text[: width - 1] + "…"


def middle(name: str, width: int) -> str:
    """Shortens a name in the middle, because workers differ in the number at its end.

    >>> middle("Worker<AsyncVectorEnv>-3", 17), middle("Worker<AsyncVectorEnv>-3", 30)
    ('Worker<AsyncV…>-3', 'Worker<AsyncVectorEnv>-3')
    """
    if len(name) <= width:
        return name
    number = _NUMBER.search(name)
    end = number[0] if number else ""
    if not end or len(end) > width // 2:
        end = name[len(name) - width // 3 :]
    return name[: max(1, width - 1 - len(end))] + "…" + end


_CELL = re.compile(r"<ipython-input-(\d+)-\w+>|.*/ipykernel_\d+/\d+\.py")


def place(file: str, line: int) -> str:
    """A line of code, as short as possible: installed packages lose the path to them, cells of notebooks their made-up names.

    >>> place("/usr/lib/python3.11/site-packages/torch/optim/adam.py", 3), place("/data/rl/train.py", 9)
    ('torch/optim/adam.py:3', 'rl/train.py:9')
    >>> place("<ipython-input-2-1da528d46991>", 4), place("/tmp/ipykernel_77/1834762.py", 4)
    ('cell 2:4', 'notebook cell:4')
    """
    if not file:
        return ""
    if cell := _CELL.fullmatch(file):
        return f"cell {cell[1]}:{line}" if cell[1] else f"notebook cell:{line}"
    installed = re.split("/(?:site|dist)-packages/", file)
    near = installed[-1] if len(installed) > 1 else "/".join(file.split("/")[-2:])
    return f"{near}:{line}"
