"""Who keeps memory, and whether it grows: against programs whose use of it is known (benchmarks/memory)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.memory import programs
from benchmarks.memory.planted import Found, line_of, run_all

import cutaway
from cutaway.analysis.growing import COPIES, FILLS
from cutaway.analysis.growth import growth
from cutaway.record.memory_limit import memory_limit
from cutaway.reports.digests import digest_of, open_run
from cutaway.reports.page.data import page_data
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

SECONDS = 10
SECOND = 10**9
LEAKS = [program.__name__ for program in programs.LEAKS]
PLAIN_LEAKS, PLAIN_FILLING = ("arrays", "worker"), ("fills_array", "fills_ring")
FILLING = [program.__name__ for program in programs.FILLS]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("memory")


@pytest.fixture(scope="module")
def found(folder: Path) -> dict[str, Found]:
    return run_all(folder, SECONDS, at_once=7)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_is_found_with_its_line(found: dict[str, Found], name: str) -> None:
    (alarm,) = found[name].alarms
    assert (alarm["line"], Path(alarm["file"]).name) == (line_of(name), "programs.py")


@pytest.mark.parametrize("name", FILLING)
def test_a_buffer_that_fills_is_no_leak(found: dict[str, Found], name: str) -> None:
    assert found[name].alarms == []


def test_memory_copied_after_a_fork_is_told(found: dict[str, Found]) -> None:
    assert [row["kind"] for row in found["fork_copies"].growing] == [COPIES]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same programs without --memory."""
    folder = tmp_path_factory.mktemp("plain")
    run_all(folder, SECONDS, 7, lines=False, names=[*PLAIN_LEAKS, *PLAIN_FILLING])
    return folder


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", PLAIN_LEAKS)
def test_resident_memory_alone_shows_that_it_grows(plain: Path, name: str) -> None:
    told = digest_of(cutaway.open(plain / f"{name}.cutaway")).verdict.warnings
    (sentence,) = [one for one in told if one.startswith("MEMORY")]
    assert sentence.startswith("MEMORY GROWS: ")
    assert "Record with --memory to see at which line." in sentence


@pytest.mark.parametrize("name", PLAIN_FILLING)
def test_resident_memory_alone_gives_no_false_alarm(plain: Path, name: str) -> None:
    told = digest_of(cutaway.open(plain / f"{name}.cutaway")).verdict.warnings
    assert not [one for one in told if one.startswith("MEMORY GROWS")]


def test_the_page_draws_memory_beside_the_lanes(
    found: dict[str, Found], folder: Path
) -> None:
    data = page_data(open_run(folder / "arrays.cutaway"))["sections"]
    drawn = data["lanes"]["memory"]
    (line,) = drawn["lines"]
    assert data["lanes"]["rows"][line["row"]].startswith("programs")
    grown = (max(line["values"]) - line["values"][40]) * drawn["unit"]
    planted = found["arrays"].planted
    assert 0.4 * planted < grown < 1.5 * planted
    leak = f"memory/programs.py:{line_of('arrays')}"
    (row,) = [row for row in data["memory"]["rows"] if row["place"] == leak]
    assert row["grows"].startswith("+") and row["bytes"] > 0.5 * planted


def test_the_page_of_a_run_without_lines_has_no_such_table(plain: Path) -> None:
    data = page_data(open_run(plain / "arrays.cutaway"))["sections"]
    assert "memory" not in data and data["lanes"]["memory"]["lines"]


def test_how_large_a_buffer_becomes(found: dict[str, Found]) -> None:
    """An array for twice the passes: allocated at once, touched as it fills."""
    (row,) = found["fills_array"].growing
    whole = SECONDS * 100 * programs.EACH
    assert row["kind"] == FILLS
    assert whole < row["until"] < whole + 150_000_000


@pytest.mark.parametrize("name", LEAKS)
def test_sizes_agree_with_what_was_allocated(
    found: dict[str, Found], folder: Path, name: str
) -> None:
    """A pass keeps so much, and nobody frees it; however many passes the machine had time for."""
    one = found[name]
    lines = cutaway.open(folder / f"{name}.cutaway").memory()
    errors = lines.where(your_line=line_of(name))["error_bytes"]
    error = float(np.sqrt(np.sum(errors**2)))
    at_first = programs.RATE  # a second of it: a library that was just loaded
    assert -at_first < one.kept - one.planted + 0.05 * one.planted + 4 * error
    assert one.kept - one.planted < 0.05 * one.planted + 4 * error


def test_the_verdict_says_that_memory_grows(
    found: dict[str, Found], folder: Path
) -> None:
    told = digest_of(cutaway.open(folder / "arrays.cutaway")).verdict.warnings
    (sentence,) = [one for one in told if one.startswith("MEMORY")]
    assert sentence.startswith("MEMORY GROWS: programs")
    assert f"programs.py:{line_of('arrays')}" in sentence


def test_a_verdict_about_a_buffer_that_fills_says_nothing_of_memory(
    found: dict[str, Found], folder: Path
) -> None:
    told = digest_of(cutaway.open(folder / "fills_ring.cutaway")).verdict.warnings
    assert not [one for one in told if one.startswith("MEMORY")]


@pytest.mark.core
def test_growth_that_stops_half_way_does_not_go_on() -> None:
    t = np.arange(100) * SECOND
    level = np.minimum(np.arange(100) * 1e6, 40e6)
    assert growth(t, level, (0, 99 * SECOND)).certain is False
    assert growth(t, np.arange(100) * 1e6, (0, 99 * SECOND)).certain is True


@pytest.mark.core
def test_noise_is_no_growth() -> None:
    t = np.arange(300) * SECOND
    noise = 100e6 + np.random.default_rng(1).normal(0, 5e6, 300)
    assert growth(t, noise, (0, 299 * SECOND)).certain is False


@pytest.mark.core
def test_the_narrowest_group_limits_memory(tmp_path: Path) -> None:
    proc, root = tmp_path / "proc", tmp_path / "cgroup"
    (proc / "self").mkdir(parents=True)
    (proc / "meminfo").write_text("MemTotal:       16000000 kB\n")
    (proc / "self" / "cgroup").write_text("0::/jobs/train\n")
    (root / "jobs" / "train").mkdir(parents=True)
    (root / "jobs" / "memory.max").write_text("4000000000\n")
    (root / "jobs" / "train" / "memory.max").write_text("max\n")
    (root / "jobs" / "train" / "memory.events").write_text("oom 3\noom_kill 2\n")
    told = memory_limit(str(proc), str(root))
    assert told == {"total": 16_384_000_000, "limit": 4_000_000_000, "oom_kills": 2}


@pytest.mark.core
def test_a_machine_that_tells_nothing_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit(str(tmp_path), str(tmp_path)) == {}


def test_a_process_that_the_kernel_killed_is_told_as_that(
    found: dict[str, Found], folder: Path, tmp_path: Path
) -> None:
    """The files of a run whose program was killed, as `cutaway run` leaves them when the group has counted a kill."""
    path = tmp_path / "killed.cutaway"
    path.symlink_to(folder / "arrays.cutaway")
    run = cutaway.open(path)
    run.trace.about["memory"] = {"total": 10**10, "oom_kills": 0}
    run.trace.ended = {"signal": 9, "t": 1, "oom_kills": 1}
    run.trace.processes[0].log.exit = None
    failure = digest_of(run).ending.failure
    assert "was killed by the kernel because memory ran out: the run had" in failure
    assert "of 10.0 GB" in failure


def test_a_run_without_meters_says_nothing(
    found: dict[str, Found], folder: Path
) -> None:
    run = cutaway.open(folder / "arrays.cutaway")
    for process in run.trace.processes:
        process.log.samples.clear()
        process.log.heap.clear()
    assert digest_of(run).memory.warnings == ()
    assert len(run.memory()) == len(run.growing()) == len(run.resident()) == 0


@pytest.mark.core
def test_heap_entries_that_make_no_sense_are_left_out(tmp_path: Path) -> None:
    from cutaway import _sweep
    from cutaway.trace.log import Log, read_log

    entries = [
        {"k": "heap", "t": 5, "live": [[0, -1, 2]]},
        {"k": "heap", "t": 5, "live": "all"},
        {"k": "site", "id": 0},
        {"k": "heap", "t": 5, "live": [[0, 10, 1]]},
    ]
    lines = [json.dumps(entry).encode() for entry in entries]
    file = tmp_path / "log.jsonl"
    file.write_bytes(
        b"".join(b"%08x %s\n" % (_sweep.crc32c(line), line) for line in lines)
    )
    log = Log()
    read_log(log, file)
    assert (log.bad_lines, log.heap) == (3, [{"t": 5, "live": [[0, 10, 1]]}])


def test_a_buffer_that_was_full_half_way_has_filled(
    found: dict[str, Found], folder: Path
) -> None:
    """What the recorder saw of a slow program: a deque that was filling at one look, and full at the next."""
    run = cutaway.open(folder / "arrays.cutaway")
    log = run.trace.processes[0].log
    grown = next(iter(run.growing()))["grown"]
    deque = {"k": "container", "name": "deque", "most": 500}
    log.others += [
        {**deque, "t": 5 * SECOND, "n": 200, "bytes": 1_000_000},
        {**deque, "t": 15 * SECOND, "n": 500, "bytes": 1_000_000 + grown},
    ]
    assert [row["kind"] for row in run.growing()] == [FILLS]
    log.others[-2]["n"] = 500  # full at both looks: it explains nothing
    assert [row["kind"] for row in run.growing()] == ["grows"]


@pytest.mark.core
@pytest.mark.parametrize(
    ("operation", "grows"), [("compile", []), ("inference", ["grows"])]
)
def test_what_compiling_keeps_is_no_leak(
    tmp_path: Path, operation: str, grows: list[str]
) -> None:
    # Given 30 s of one operation, in which resident memory grows by 10 MB a second.
    with RunWriter(tmp_path / "run.cutaway") as run:
        process = run.process(pid=7, name="train")
        for tenth in range(300):
            resident = 10**8 + tenth * 10**6
            process.log(
                "sample", {"t": tenth * SECOND // 10, "threads": {}, "rss": resident}
            )
        thread, name = process.thread(tid=7), process.name(operation)
        thread.write([0], [0], Kind.BEGIN, 0)
        thread.write([0], [0], Kind.OP_ENTER, name)
        thread.write([30 * SECOND], [0], Kind.OP_EXIT, name)
        thread.write([30 * SECOND], [0], Kind.END, 0)
        process.exit(t=30 * SECOND, code=0)
    # Then only growth outside of compiling is an alarm.
    assert cutaway.open(tmp_path / "run.cutaway").growing()["kind"].tolist() == grows
