"""`cutaway compare --scaling`: the lost part, divided by its cause, on runs whose answer is known."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from analysis_runs import write_demo

from cutaway.commands import main
from cutaway.errors import CutawayError
from cutaway.reports import scaling, scaling_figure
from cutaway.reports.digest import Digest, Process, Wait
from cutaway.reports.digests import digest_at

pytestmark = pytest.mark.core

SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Digest:
    return digest_at(write_demo(tmp_path_factory.mktemp("scaling") / "demo.cutaway"))


def process(
    id: int, role: str, work: float, sync: float = 0.0, queued: float = 0.0
) -> Process:
    """A process that works for a share of one second and waits for the rest."""
    busy = round(work * SECOND)
    layers = {"python": busy, "wait": SECOND - busy}
    operations = {
        "simulation": round((work - sync) * SECOND),
        "sync": round(sync * SECOND),
    }
    return Process(
        id=id, pid=id, parent=0, name=f"p{id}", role=role, start_ns=0, end_ns=SECOND, exit="0", threads=1,
        cpu_ns=busy, events=100, lost=0, operations=operations, layers=layers, queued_share=queued,
    )  # fmt: skip


def run(
    demo: Digest, steps: int, *processes: Process, waits: tuple[Wait, ...] = ()
) -> Digest:
    """A run of one second in which these processes made so many steps."""
    return replace(
        demo,
        processes=processes,
        main_process=0,
        pace=replace(demo.pace, steps=steps, steady_ns=SECOND),
        waits=waits,
    )


def largest(small: Digest, large: Digest) -> scaling.Scaled:
    points = [
        scaling.point(name, d, "step")
        for name, d in (("small", small), ("large", large))
    ]
    last = scaling.scaled(points)[-1]
    assert sum(last.losses.values()) == pytest.approx(1 - last.efficiency)
    return last


def test_a_main_process_that_works_alone_is_the_serial_part(demo: Digest) -> None:
    # One worker: 3 ms of its own and 6 ms of the main process for each step; four: 12 of 27 ms … and 24 of 27.
    small = run(demo, 111, process(0, "learner", 6 / 9), process(1, "actor", 3 / 9))
    workers = [process(i, "actor", 3 / 27) for i in range(1, 5)]
    large = run(demo, 148, process(0, "learner", 24 / 27), *workers)
    found = largest(small, large)
    assert found.largest == "serial"
    assert found.speedup == pytest.approx(148 / 111)


def test_one_slow_worker_holds_up_the_others(demo: Digest) -> None:
    small = run(demo, 300, process(0, "learner", 0.1), process(1, "actor", 0.9))
    slow = [process(1, "actor", 0.9), *(process(i, "actor", 0.25) for i in range(2, 5))]
    large = run(demo, 330, process(0, "learner", 0.1), *slow)
    assert largest(small, large).largest == "slowest"


def test_what_one_worker_does_more_than_the_others_is_not_the_machine(
    demo: Digest,
) -> None:
    # One of two workers takes four times as long for each step: 12 ms instead of 3.
    small = run(demo, 300, process(0, "learner", 0.1), process(1, "actor", 0.9))
    pair = [process(1, "actor", 0.225), process(2, "actor", 0.9)]
    found = largest(small, run(demo, 150, process(0, "learner", 0.1), *pair))
    assert found.largest == "slowest"
    assert found.losses["slowest"] > 0.6
    assert found.losses["machine"] < 0.1


def test_a_tenth_that_is_lost_is_no_cause(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 0.0), process(1, "actor", 1.0))
    pair = [replace(process(i, "actor", 0.93), events=100) for i in (1, 2)]
    found = largest(small, run(demo, 186, process(0, "learner", 0.0), *pair))
    assert (found.largest, found.efficiency) == ("", pytest.approx(0.93))


def test_too_few_cores_are_neither_work_nor_waiting(demo: Digest) -> None:
    small = run(demo, 300, process(0, "learner", 0.1), process(1, "actor", 0.9))
    crowd = [process(i, "actor", 0.9, queued=0.6) for i in range(1, 5)]
    assert (
        largest(small, run(demo, 400, process(0, "learner", 0.1), *crowd)).largest
        == "queue"
    )


def test_a_launcher_is_no_worker(demo: Digest) -> None:
    small = run(demo, 100, process(1, "learner", 1.0), process(2, "launcher", 0.0))
    small = replace(small, main_process=0)
    found = scaling.point("one", small, "step")
    assert (found.workers, found.parts["work"]) == (1, pytest.approx(0.01))


def test_actors_wait_for_the_process_that_answers_them(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 0.9), process(1, "actor", 1.0))
    server = process(9, "inference", 0.8)
    actors = [process(i, "actor", 0.2) for i in (1, 2)]
    large = run(demo, 40, process(0, "learner", 0.1), server, *actors)
    found = largest(small, large)
    assert found.largest == "serial"
    told = scaling.sentence([found, found])
    assert "because workers wait while process p9 works" in told


def test_who_is_awake_without_a_core_does_not_wait_for_others(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 0.9), process(1, "actor", 1.0))
    crowd = [process(i, "actor", 0.1, queued=0.7) for i in range(1, 5)]
    found = largest(small, run(demo, 40, process(0, "learner", 0.9), *crowd))
    assert found.largest == "queue"
    assert found.losses["serial"] < found.losses["queue"]


def test_ranks_that_exchange_gradients_lose_time_in_sync(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 1.0))
    waits = tuple(Wait(i, -1, "sync", "socket", SECOND // 2, 10) for i in range(2))
    ranks = [process(i, "learner", 0.5) for i in range(2)]
    found = largest(small, run(demo, 100, *ranks, waits=waits))
    assert found.largest == "sync"
    assert found.losses["sync"] == pytest.approx(0.5)


def test_the_rank_that_others_wait_for_in_sync_is_the_slowest(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 1.0))
    waits = (Wait(0, -1, "sync", "socket", SECOND // 2, 10),)
    ranks = [process(0, "learner", 0.5), process(1, "learner", 1.0)]
    assert largest(small, run(demo, 110, *ranks, waits=waits)).largest == "slowest"


def test_the_same_calls_that_take_longer_are_the_machine(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 0.0), process(1, "actor", 1.0))
    pair = [replace(process(i, "actor", 1.0), events=60) for i in (1, 2)]
    large = run(demo, 120, process(0, "learner", 0.0), *pair)
    assert largest(small, large).largest == "machine"


def test_more_calls_for_each_step_are_more_work(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 0.0), process(1, "actor", 1.0))
    pair = [replace(process(i, "actor", 1.0), events=100) for i in (1, 2)]
    assert (
        largest(small, run(demo, 100, process(0, "learner", 0.0), *pair)).largest
        == "work"
    )


def test_perfect_scaling_has_no_cause(demo: Digest) -> None:
    small = run(demo, 100, process(0, "learner", 0.0), process(1, "actor", 1.0))
    pair = [replace(process(i, "actor", 1.0), events=100) for i in (1, 2)]
    found = largest(small, run(demo, 200, process(0, "learner", 0.0), *pair))
    assert (found.largest, found.efficiency) == ("", pytest.approx(1.0))


def test_the_figure_stacks_losses_up_to_the_ideal(demo: Digest) -> None:
    small = run(demo, 300, process(0, "learner", 0.1), process(1, "actor", 0.9))
    crowd = [process(i, "actor", 0.9, queued=0.6) for i in range(1, 5)]
    points = [
        scaling.point("a", small, "step"),
        scaling.point("b", run(demo, 400, process(0, "learner", 0.1), *crowd), "step"),
    ]
    drawn = scaling_figure.drawn(scaling.scaled(points)).alone()
    assert "no free core" in drawn and drawn.count("stroke-dasharray") == 2


def test_runs_with_one_number_of_workers_cannot_be_compared(demo: Digest) -> None:
    one = run(demo, 300, process(0, "learner", 0.1), process(1, "actor", 0.9))
    points = [scaling.point(name, one, "step") for name in "ab"]
    with pytest.raises(CutawayError, match="same number of workers"):
        scaling.scaled(points)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        write_demo(tmp_path / f"{name}.cutaway")
    paths = [str(tmp_path / "one.cutaway"), str(tmp_path / "two.cutaway")]
    words = ["compare", "--scaling", "--workers", "1,2", *paths]
    assert (
        main(
            [
                *words,
                "--figure",
                str(tmp_path / "s.svg"),
                "-o",
                str(tmp_path / "s.html"),
            ]
        )
        == 0
    )
    out = capsys.readouterr().out
    assert "1.00 times as fast as 1, of 2 possible" in out.replace("\n", " ")
    assert max(map(len, out.splitlines())) <= 80 or "wrote" in out
    assert (tmp_path / "s.svg").stat().st_size and (tmp_path / "s.html").stat().st_size
    assert main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["workers"] for row in told["runs"]] == [1, 2]
    assert main(["compare", "--scaling", paths[0]]) == 2
