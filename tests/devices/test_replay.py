"""Records of real GPUs, rebuilt as CUPTI's own structures by the double, come out of our collector as they went in."""

from __future__ import annotations

import struct
import time
from collections import Counter
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from device_runs import in_run, inject, read
from double import call_names
from traces import Expected, load, traces

from cutaway.analysis.intervals import length, union

KINDS = {"kernel": 10, "gpu_memcpy": 1, "memcpy": 1, "gpu_memset": 2, "memset": 2}
CALLS = {"cuda_runtime": 5, "runtime": 5, "cuda_driver": 4}
ROW = struct.Struct("<QQQ16I160s")  # Replay in cupti_double/replay.c


def rows(trace: dict[str, Any]) -> list[dict[str, Any]]:
    base = int(trace.get("baseTimeNanoseconds", 0))
    out = []
    for event in trace["traceEvents"]:
        category = str(event.get("cat", "")).lower()
        kind = KINDS.get(category) or CALLS.get(category)
        if event.get("ph") != "X" or kind is None:
            continue
        start = base + int(Decimal(event["ts"]) * 1000)
        about = dict(event.get("args", {}))
        out.append(
            {
                **about,
                "kind": kind,
                "start": start,
                "end": start + int(Decimal(event["dur"]) * 1000),
                "name": event["name"],
                "tid": event["tid"],
            }
        )
    return out


@cache
def kept_calls() -> dict[int, int]:
    """The number that every call of a kind gets: that of one which is kept."""
    return {4: call_names("cupti_driver_cbid.h")["cuLaunchKernel"], 5: 1}


def pack(row: dict[str, Any]) -> bytes:
    """A record for the double."""
    three = [list(map(int, row.get(key, (0, 0, 0)))) for key in ("grid", "block")]
    number = lambda key: int(row.get(key, 0) or 0) & 0xFFFFFFFF  # noqa: E731
    thread = int(row["tid"]) & 0xFFFFFFFF if str(row["tid"]).isdigit() else 0
    place = (
        row["kind"],
        number("correlation"),
        number("device"),
        number("stream"),
        thread,
        kept_calls().get(row["kind"], 0),
    )
    rest = (
        number("registers per thread"),
        number("shared memory"),
        1,
        number("graph id"),
    )
    return ROW.pack(
        row["start"],
        row["end"],
        number("bytes"),
        *place,
        *three[0],
        *three[1],
        *rest,
        row["name"].encode()[:159],
    )


def today(given: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same work, begun now: what lies outside the life of a process is not taken for its own."""
    shift = time.monotonic_ns() - min(row["start"] for row in given)
    return [
        {**row, "start": row["start"] + shift, "end": row["end"] + shift}
        for row in given
    ]


@pytest.mark.parametrize(
    ("path", "expected"), traces().items(), ids=lambda value: getattr(value, "name", "")
)
def test_a_real_trace_survives_the_collector(
    path: Path, expected: Expected, tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    given = today(rows(load(path)))
    assert min(row["end"] - row["start"] for row in given) >= 0
    (tmp_path / "replay.bin").write_bytes(b"".join(map(pack, given)))
    done = in_run(
        tmp_path / "r.cutaway",
        [str(trainer), "replay", str(tmp_path / "replay.bin")],
        **inject(fake_cupti),
    )
    assert (done.returncode, done.stdout) == (0, f"{len(given)}\n"), done.stderr
    (recorded,) = read(tmp_path / "r.cutaway")
    work, api = recorded.work, recorded.api
    assert (len(work), len(api)) == (expected.work, expected.calls)
    for device, busy in expected.busy_ns.items():
        mine = work[work["device"] == int(device)]
        assert length(union(mine["start"], mine["end"])) == busy
    launched = Counter(
        (int(r["start"]), int(r["end"]), int(r["correlation"])) for r in work
    )
    assert launched == Counter(
        (r["start"], r["end"], int(r.get("correlation", 0)))
        for r in given
        if r["kind"] in KINDS.values()
    )
    assert recorded.process.log.losses == []


def test_grids_and_names_of_real_kernels(
    tmp_path: Path, trainer: Path, fake_cupti: Path
) -> None:
    path = next(p for p in traces() if "h100_bert" in p.name)
    given = [row for row in today(rows(load(path))) if row["kind"] == KINDS["kernel"]]
    (tmp_path / "replay.bin").write_bytes(b"".join(map(pack, given)))
    in_run(
        tmp_path / "r.cutaway",
        [str(trainer), "replay", str(tmp_path / "replay.bin")],
        **inject(fake_cupti),
    )
    (recorded,) = read(tmp_path / "r.cutaway")
    want = Counter(
        (r["name"][:159], *r["grid"], *r["block"], r["registers per thread"])
        for r in given
    )
    have = Counter(
        (
            recorded.process.log.name(int(w["name"])),
            *w["grid"].tolist(),
            *w["block"].tolist(),
            int(w["registers"]),
        )
        for w in recorded.work
    )
    assert have == want
