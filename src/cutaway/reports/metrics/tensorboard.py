"""Figures as TensorBoard scalars: an event file of TFRecords, each with a protobuf `Event`. Needs no TensorBoard."""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from cutaway import _recorder
from cutaway.reports.metrics import Figure
from cutaway.trace.exports.protobuf import blob, float32, float64, number


class Writer:
    """Appends to one event file in the folder; the seconds of the run are the step."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{os.uname().nodename}.{os.getpid()}.cutaway"
        self._path = folder / name
        self._append(blob(3, "brain.Event:2"))

    def __call__(self, figures: list[Figure]) -> None:
        seconds = next((int(figure.value) for figure in figures if figure.name == "seconds"), 0)
        values = (blob(1, "cutaway/" + f.tag) + float32(2, f.value) for f in figures if f.name != "seconds")
        self._append(number(2, seconds) + blob(5, b"".join(blob(1, value) for value in values)))

    def _append(self, what: bytes) -> None:
        event = float64(1, time.time()) + what
        length = struct.pack("<Q", len(event))
        with self._path.open("ab") as file:
            file.write(length + _checksum(length) + event + _checksum(event))


def _checksum(data: bytes) -> bytes:
    """TFRecord's masked CRC-32C."""
    crc = _recorder.crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
