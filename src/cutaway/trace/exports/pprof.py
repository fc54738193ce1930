"""Writes pprof's profile.proto: every stack with its time, for `go tool pprof`, Pyroscope, Parca and the viewers of editors.

The messages are those of https://github.com/google/pprof/blob/main/proto/profile.proto. A sample is a stack, innermost first, with
its nanoseconds and two labels: the operation and the process.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable
from typing import BinaryIO, NamedTuple

from cutaway.trace.exports.protobuf import blob, number, varint

# Fields of Profile, and of the messages in it.
SAMPLE_TYPE = 1
SAMPLE = 2
LOCATION = 4
FUNCTION = 5
STRINGS = 6
TIME = 9
DURATION = 10
COMMENT = 13


class Frame(NamedTuple):
    """A line of a function."""

    function: str
    file: str
    line: int


class Stack(NamedTuple):
    """A stack, outermost first, and its time."""

    frames: tuple[Frame, ...]
    ns: int
    operation: str
    process: str


class _Names:
    """Numbers for things that are written once."""

    def __init__(self) -> None:
        self.strings = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[Frame, int] = {}

    def text(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def location(self, frame: Frame) -> int:
        known = self.functions
        known.setdefault((frame.function, frame.file), len(known) + 1)
        return self.locations.setdefault(frame, len(self.locations) + 1)


def write(
    stacks: Iterable[Stack], file: BinaryIO, time_ns: int, duration_ns: int
) -> int:
    """Writes stacks as one gzipped profile; returns how many there are."""
    names = _Names()
    count = 0
    body = [blob(SAMPLE_TYPE, _value_type(names, "time", "nanoseconds"))]
    for stack in stacks:
        if stack.ns > 0:
            body.append(blob(SAMPLE, _sample(names, stack)))
            count += 1
    for frame, id in names.locations.items():
        body.append(blob(LOCATION, _location(names, frame, id)))
    for (function, path), id in names.functions.items():
        body.append(blob(FUNCTION, _function(names, function, path, id)))
    body.append(number(TIME, time_ns) + number(DURATION, duration_ns))
    body.append(number(COMMENT, names.text("made by cutaway")))
    body += [blob(STRINGS, text) for text in names.strings]
    file.write(gzip.compress(b"".join(body), mtime=0))
    return count


def _value_type(names: _Names, type: str, unit: str) -> bytes:
    return number(1, names.text(type)) + number(2, names.text(unit))


def _sample(names: _Names, stack: Stack) -> bytes:
    ids = [varint(names.location(frame)) for frame in reversed(stack.frames)]
    labels = (("operation", stack.operation), ("process", stack.process))
    out = blob(1, b"".join(ids)) + blob(2, varint(stack.ns))
    for key, value in labels:
        out += blob(3, number(1, names.text(key)) + number(2, names.text(value)))
    return out


def _location(names: _Names, frame: Frame, id: int) -> bytes:
    function = names.functions[frame.function, frame.file]
    line = number(1, function) + number(2, frame.line)
    return number(1, id) + blob(4, line)


def _function(names: _Names, function: str, path: str, id: int) -> bytes:
    name = number(2, names.text(function)) + number(3, names.text(function))
    return number(1, id) + name + number(4, names.text(path))
