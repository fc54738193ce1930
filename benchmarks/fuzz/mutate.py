"""One change to a run that no recorder would make. Checksums and lengths are repaired, so that it reaches the readers."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from cutaway import _sweep
from cutaway.trace import format as fmt
from cutaway.vocabulary import DEVICE_CHUNK, PULSE_SLOT, Stream

ODD: tuple[Any, ...] = (
    None, True, False, -1, 0, 1, 2, 255, 2**16, 2**24, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64, 10**30,
    0.5, -1.5, 1e18, 1e300, float("nan"), float("inf"), "", "x", "0", "-1", "1e9", "x" * 5000, "\ud800", "\x1b[31mred",
    "<script>", "a\nb\0c", [], {}, [1], [[]], {"a": 1}, {"10": [1, 2]}, [{"id": "0"}], "simulation", "wait", "pipe:1",
)  # fmt: skip
NUMBERS = (
    0,
    1,
    2,
    3,
    7,
    13,
    14,
    127,
    255,
    256,
    2**16,
    2**24 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**53,
    2**62,
    2**63,
    2**64 - 1,
)


def mutate(folder: Path, chance: random.Random) -> str:
    """Changes a run in one to three places; says which. Only the last change may leave a file that
    cannot be changed again."""
    told = []
    for left in reversed(range(chance.choice((1, 1, 1, 2, 3)))):
        process = chance.choice([p for p in sorted(folder.iterdir()) if p.is_dir()])
        change = chance.choices(
            CHANGES, WEIGHTS if not left else (*WEIGHTS[:-3], 0, 0, 0)
        )[0]
        told.append(f"{change.__name__} {process.name}: {change(process, chance)}")
    return "; ".join(told)


def _log(process: Path, chance: random.Random) -> str:
    path = process / "log.jsonl"
    lines = path.read_bytes().splitlines()
    at = chance.randrange(len(lines))
    entry = json.loads(lines[at][9:])
    told = _change_value(entry, chance)
    text = json.dumps(entry).encode()
    lines[at : at + 1] = [b"%08x %s" % (_sweep.crc32c(text), text)] * chance.choice(
        (1, 1, 1, 2)
    )
    path.write_bytes(b"\n".join(lines) + b"\n")
    return told


def _change_value(value: Any, chance: random.Random, path: str = "") -> str:
    """Somewhere inside a JSON value: exchanged, taken out, or put under another name."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    if not keys:
        return f"{path} is empty"
    key = chance.choice(keys)
    if isinstance(value[key], (dict, list)) and value[key] and chance.random() < 0.6:
        return _change_value(value[key], chance, f"{path}.{key}")
    if isinstance(value, dict) and chance.random() < 0.15:
        del value[key]
        return f"{path}.{key} is gone"
    value[key] = chance.choice(ODD)
    return f"{path}.{key} = {value[key]!r:.40}"


def _json(process: Path, chance: random.Random) -> str:
    path = process.parent / chance.choice(("run.json", "exit.json", "calibration.json"))
    value = json.loads(path.read_text())
    told = _change_value(value, chance)
    path.write_text(json.dumps(value if chance.random() < 0.95 else chance.choice(ODD)))
    return f"{path.name} {told}"


def _field(records: Any, chance: random.Random) -> str:
    name = chance.choice([n for n in records.dtype.names if n not in ("magic", "pad")])
    at, number = chance.randrange(len(records)), chance.choice(NUMBERS)
    number &= (1 << 8 * records[name].dtype.itemsize) - 1
    rows = slice(None) if chance.random() < 0.1 else slice(at, at + 1)
    records[name][rows] = number
    return f"{name}[{'all' if rows == slice(None) else at}] = {number}"


def _records(process: Path, chance: random.Random) -> str:
    """Records of a block, packed again."""
    path = process / "events.bin"
    data = path.read_bytes()
    raw, _, _ = _sweep.scan(str(path), False)
    sources = raw.view(fmt.SOURCE_DTYPE)
    source = sources[chance.randrange(len(sources)) :][:1]
    start, end = int(source["offset"][0]), int(source["offset"][0] + source["bytes"][0])
    at_head = start - fmt.BLOCK_HEAD_DTYPE.itemsize
    head = np.frombuffer(data[at_head:start], fmt.BLOCK_HEAD_DTYPE).copy()
    records = (
        _sweep.decode(str(path), source.view(np.uint8))[0].view(fmt.RECORD_DTYPE).copy()
    )
    if chance.random() < 0.5:
        at, kind = chance.randrange(len(records)), chance.randrange(18)
        records["tag"][at] = kind | chance.choice((0, 1, 2, 3, 99, 2**24 - 1)) << 8
        told = f"record {at} is of kind {kind}"
    else:
        told = _field(records, chance)
    payload = _sweep.pack(records.view(np.uint8)).tobytes()
    head["bytes"], head["payload_crc"] = len(payload), _sweep.crc32c(payload)
    path.write_bytes(data[:at_head] + _sealed(head) + payload + data[end:])
    return told


def _sealed(head: Any) -> bytes:
    head["head_crc"] = _sweep.crc32c(head.tobytes()[:-4])
    return bytes(head.tobytes())


def _heads(process: Path, chance: random.Random) -> str:
    path = process / chance.choice(("events.bin", "device.bin"))
    data = path.read_bytes()
    if not data:
        return "no block"
    size = fmt.BLOCK_HEAD_DTYPE.itemsize
    head = np.frombuffer(data[:size], fmt.BLOCK_HEAD_DTYPE).copy()
    told = _field(head, chance)
    path.write_bytes(_sealed(head) + data[size:])
    return f"{path.name} {told}"


def _device(process: Path, chance: random.Random) -> str:
    """A field of device.bin's records."""
    path = process / "device.bin"
    data = bytearray(path.read_bytes())
    if not data:
        return "no block"
    at = chance.randrange(len(data) // DEVICE_CHUNK) * DEVICE_CHUNK
    size = fmt.BLOCK_HEAD_DTYPE.itemsize
    head = np.frombuffer(bytes(data[at : at + size]), fmt.BLOCK_HEAD_DTYPE).copy()
    dtype = fmt.API_DTYPE if head["stream"][0] == Stream.API else fmt.DEVICE_DTYPE
    end = at + size + int(head["bytes"][0])
    records = np.frombuffer(bytes(data[at + size : end]), dtype).copy()
    told = _field(records, chance)
    head["payload_crc"] = _sweep.crc32c(records.tobytes())
    data[at:end] = _sealed(head) + records.tobytes()
    path.write_bytes(data)
    return told


def _live(process: Path, chance: random.Random) -> str:
    """The head or the records of a live segment, which have no checksum."""
    for path in process.glob("live-*.seg"):
        data = bytearray(path.read_bytes())
        at = chance.randrange(0, 96)
        data[at] = chance.randrange(256)
        path.write_bytes(data)
        return f"byte {at}"
    return "no segment"


def _pulse(process: Path, chance: random.Random) -> str:
    path = process / "pulse.bin"
    if not path.exists():
        return "no pulse"
    data = bytearray(path.read_bytes())
    slot = bytearray(data[-PULSE_SLOT:])
    at = chance.randrange(0, 96)
    slot[at] = chance.randrange(256)
    slot[32:36] = bytes(4)
    slot[32:36] = _sweep.crc32c(bytes(slot)).to_bytes(4, "little")
    data[-PULSE_SLOT:] = slot
    path.write_bytes(data)
    return f"byte {at}"


def _files(process: Path, chance: random.Random) -> str:
    """A file is something else."""
    path = chance.choice([f for f in sorted(process.parent.rglob("*")) if f.is_file()])
    data = path.read_bytes()
    path.unlink()
    how = chance.choice(("gone", "pipe", "zero", "folder", "sparse", "cut", "bytes"))
    if how == "pipe":
        os.mkfifo(path)
    elif how == "zero":
        path.symlink_to("/dev/zero")
    elif how == "folder":
        path.mkdir()
    elif how == "sparse":
        path.write_bytes(data)
        os.truncate(path, 200 << 30)
    elif how == "cut":
        path.write_bytes(data[: chance.randrange(len(data) + 1)])
    elif how == "bytes":
        path.write_bytes(chance.randbytes(chance.randrange(5000)))
    return f"{path.name} is {how}"


CHANGES: tuple[Callable[[Path, random.Random], str], ...] = (
    _log, _records, _device, _live, _pulse, _heads, _json, _files,
)  # fmt: skip
WEIGHTS = (40, 20, 12, 4, 4, 6, 8, 6)
