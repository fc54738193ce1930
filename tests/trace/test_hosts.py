"""A run of several hosts on one clock, and how well that clock is known."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

import cutaway
from cutaway.reports.digests import digest_at
from cutaway.trace.clocks import host_clocks
from cutaway.trace.log import Anchor, Link, Log
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

MS, HOUR = 1_000_000, 3_600_000_000_000
DELAY = 200_000  # of a message, ns


def talking(shift: int, wall_error: int, random: Random) -> list[tuple[str, Log]]:
    """Two hosts for ten seconds: `a` sends to `b` 1,000 bytes every millisecond. The clock of `b` is behind that of `a`."""
    sent = [(i * MS, (i + 1) * 1000) for i in range(10_000)]

    def bytes_at(t: int) -> int:
        return sent[min(len(sent) - 1, t // MS)][1] if t >= 0 else 0

    a, b = Log(), Log()
    start = 5 * HOUR  # on the clock of a
    a.anchors.append(Anchor(start, 100 * HOUR, 0, 0))
    b.anchors.append(Anchor(start - shift, 100 * HOUR + wall_error, 0, 0))
    for _ in range(100):
        t = random.randrange(10_000 * MS)
        a.links.append(
            Link(
                "tcp:1>2",
                start + t,
                start + t + 2000,
                bytes_at(t),
                bytes_at(t - 2 * DELAY),
                0,
            )
        )
        t = random.randrange(10_000 * MS)
        b.links.append(
            Link(
                "tcp:2>1",
                start + t - shift,
                start + t - shift + 2000,
                0,
                0,
                bytes_at(t - DELAY),
            )
        )
    return [("a", a), ("b", b)]


@pytest.mark.parametrize("wall_error", [0, 3 * MS, -400 * MS, 7 * HOUR])
def test_messages_bound_the_difference_of_two_clocks(wall_error: int) -> None:
    shift = 3 * HOUR
    clocks = host_clocks(talking(shift, wall_error, Random(wall_error)))
    assert clocks["a"].shift_ns == 0
    found = clocks["b"]
    assert found.error_ns is not None and found.error_ns < 100 * MS
    assert abs(found.shift_ns - shift) <= found.error_ns


def test_without_messages_the_wall_clocks_decide_and_the_error_is_unknown() -> None:
    (_, a), (_, b) = talking(3 * HOUR, 5 * MS, Random(1))
    a.links.clear()
    clocks = host_clocks([("a", a), ("b", b)])
    assert (clocks["b"].shift_ns, clocks["b"].error_ns) == (3 * HOUR + 5 * MS, None)


def test_a_third_host_is_bounded_through_the_second() -> None:
    (_, a), (_, b) = talking(3 * HOUR, 0, Random(2))
    (_, far_a), (_, far_b) = talking(3 * HOUR, 0, Random(3))
    c = Log(
        anchors=far_b.anchors,
        links=[link._replace(on="tcp:4>3") for link in far_b.links],
    )
    a.links += [link._replace(on="tcp:3>4") for link in far_a.links]
    clocks = host_clocks([("a", a), ("b", b), ("c", c)])
    assert clocks["c"].error_ns is not None and clocks["c"].error_ns < 100 * MS


def write_host(run: RunWriter, host: str, mono: int, busy: int) -> None:
    """A process that works for `busy` ns from the wall time of one hour on; pids are the same on both hosts."""
    process = run.process(7, name="rank", host=host, start_ns=mono)
    process.log("anchor", {"mono": mono, "real": HOUR, "raw": 0, "ticks": 0})
    name = process.name("simulation")
    times = [mono, mono, mono + busy, mono + busy]
    kinds = [Kind.BEGIN, Kind.OP_ENTER, Kind.OP_EXIT, Kind.END]
    process.thread(7, t=mono).write(times, 0, kinds, [0, name, name, 0])
    process.log("exit", {"t": mono + busy, "code": 0})
    process.close()
    folder = run.path / f"host-{host}"
    folder.mkdir()
    process.folder.rename(folder / process.folder.name)


def test_parts_of_hosts_are_one_run(tmp_path: Path) -> None:
    run = RunWriter(tmp_path / "two.cutaway")
    write_host(run, "near", 50 * HOUR, busy=1000)
    write_host(run, "far", 2 * HOUR, busy=3000)
    found = cutaway.open(tmp_path / "two.cutaway")
    rows = sorted(found.processes(), key=lambda row: row["name"])
    assert [row["name"] for row in rows] == ["far: rank", "near: rank"]
    assert [row["parent"] for row in rows] == [-1, -1]
    assert {row["start_ns"] for row in rows} == {50 * HOUR}
    assert found.breakdown(by=("process", "operation"))["ns"].tolist() in (
        [1000, 3000],
        [3000, 1000],
    )
    assert {name: clock.error_ns for name, clock in found.trace.hosts.items()} == {
        "near": 0,
        "far": None,
    }
    (note,) = [
        note
        for note in digest_at(tmp_path / "two.cutaway").trust.notes
        if "hosts" in note
    ]
    assert note == "2 hosts on the clock of near: far by the wall clocks only."
