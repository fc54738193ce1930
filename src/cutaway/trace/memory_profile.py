"""Reads what `jax.profiler.device_memory_profile()` returns: pprof's profile.proto, gzip, with a stack for each group of live buffers.

https://github.com/google/pprof/blob/main/proto/profile.proto; the values of a sample are a count and bytes, its labels the device
and whether it is a buffer or a compiled program.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

LARGEST = 64 << 20  # bytes unpacked: these files have some hundred kilobytes
_SAMPLE_TYPE = 1
_SAMPLE = 2
_LOCATION = 4
_FUNCTION = 5
_STRINGS = 6
_VARINT = 0
_FIXED64 = 1
_BLOB = 2
_FIXED32 = 5
_FIXED_BYTES = {_FIXED64: 8, _FIXED32: 4}
_DEVICE = re.compile(r"(\d+)\Z")


class Held(NamedTuple):
    """Buffers that one stack keeps on one device (-1: the CPU); `frames` are (function, file, line), innermost first."""

    device: int
    kind: str
    blocks: int
    bytes: int
    frames: tuple[tuple[str, str, int], ...]


@dataclass
class _Tables:
    """What the numbers in samples stand for."""

    strings: list[str] = field(default_factory=list)
    functions: dict[int, dict[int, Any]] = field(default_factory=dict)
    locations: dict[int, dict[int, Any]] = field(default_factory=dict)
    samples: list[bytes] = field(default_factory=list)

    def text(self, number: Any) -> str:
        """A string of the file."""
        if isinstance(number, int) and number < len(self.strings):
            return self.strings[number]
        return ""

    def frame(self, location: int) -> tuple[str, str, int]:
        """Function, file and line of a location."""
        line = _message(self.locations.get(location, {}).get(4, b""))
        function = self.functions.get(line.get(1, 0), {})
        return self.text(function.get(2)), self.text(function.get(4)), line.get(2, 0)


def read_profile(data: bytes) -> list[Held]:
    """The buffers of a profile; ValueError if it is none."""
    tables = _Tables()
    for number, value in _fields(_unpacked(data)):
        if not isinstance(value, bytes):
            continue
        if number == _STRINGS:
            tables.strings.append(value.decode("utf-8", "replace"))
        elif number == _SAMPLE:
            tables.samples.append(value)
        elif number in (_LOCATION, _FUNCTION):
            message = _message(value)
            if number == _LOCATION:
                kept = tables.locations
            else:
                kept = tables.functions
            kept[message.get(1, 0)] = message
    return [_held(tables, sample) for sample in tables.samples]


def _held(tables: _Tables, sample: bytes) -> Held:
    locations: list[int] = []
    values: list[int] = []
    labels: dict[str, str] = {}
    for number, value in _fields(sample):
        if number in (1, 2):
            if isinstance(value, bytes):
                found = list(_packed(value))
            else:
                found = [value]
            (locations if number == 1 else values).extend(found)
        elif number == 3 and isinstance(value, bytes):
            label = _message(value)
            labels[tables.text(label.get(1))] = tables.text(label.get(2))
    if len(values) != 2:
        raise ValueError("it counts no bytes")
    frames = tuple(tables.frame(location) for location in locations)
    device = _device(labels.get("device", ""))
    return Held(device, labels.get("kind", ""), values[0], values[1], frames)


def _device(name: str) -> int:
    """The number at the end of a name such as `cuda:1`; `TFRT_CPU_0` is the CPU."""
    number = _DEVICE.search(name)
    if "CPU" in name.upper() or not number:
        return -1
    return int(number[1])


def _unpacked(data: bytes) -> bytes:
    if not data.startswith(b"\x1f\x8b"):
        return data
    try:
        unpacked = zlib.decompressobj(wbits=31).decompress(data, LARGEST)
    except (zlib.error, gzip.BadGzipFile) as error:
        raise ValueError("it cannot be unpacked") from error
    if len(unpacked) == LARGEST:
        raise ValueError("it is too large")
    return unpacked


def _message(data: Any) -> dict[int, Any]:
    """The last value of each field."""
    if isinstance(data, bytes):
        return dict(_fields(data))
    return {}


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Number and value of each field of a message: a number, or the bytes of a text or message."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        size = _FIXED_BYTES.get(kind, 0)
        if kind == _BLOB:
            size, position = _varint(data, position)
        elif not size:
            raise ValueError("it has fields of an unknown kind")
        if position + size > len(data):
            raise ValueError("it is cut off")
        if kind == _BLOB:
            yield tag >> 3, data[position : position + size]
        position += size


def _packed(data: bytes) -> Iterator[int]:
    position = 0
    while position < len(data):
        value, position = _varint(data, position)
        yield value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 64:
        if position >= len(data):
            raise ValueError("it is cut off")
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("it has a number that is too long")
