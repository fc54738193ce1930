"""The replay engine against closed forms, and against its twin in plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
from replay_twin import (
    ANSWER,
    ASK,
    COLLECT,
    DELAY,
    EACH,
    GIVE,
    PASS,
    PEEK,
    RUN,
    RUN_GIL,
    TAKE,
    Item,
    Twin,
)

from cutaway import _simulate

pytestmark = pytest.mark.core


def replayed(
    threads: list[list[Item]],
    cores: int,
    channels: list[float] | None = None,
    process: list[int] | None = None,
) -> _simulate.Replayed:
    items = [item for thread in threads for item in thread]
    return _simulate.replay(
        np.array([item[0] for item in items], np.uint8),
        np.array([item[1] for item in items], np.uint32),
        np.array([item[2] for item in items], np.float64),
        np.concatenate([[0], np.cumsum([len(thread) for thread in threads])]).astype(
            np.int64
        ),
        np.array(process or list(range(len(threads))), np.int32),
        np.ones(1),
        channels or [],
        0,
        _simulate.Cpu(threads=cores, cores=cores),
    )


def pace(found: _simulate.Replayed) -> float:
    """Seconds of an iteration, without the first few."""
    return float(np.diff(found.passes)[5:].mean())


@pytest.mark.parametrize(("make", "use"), [(3e-3, 1e-3), (1e-3, 3e-3), (2e-3, 2e-3)])
def test_a_producer_and_a_consumer_go_at_the_pace_of_the_slower(
    make: float, use: float
) -> None:
    # Channel 0: items, channel 1: free places of a queue of two.
    producer = [(TAKE, 1, 1.0), (RUN, 0, make), (GIVE, 0, 1.0)] * 50
    consumer = [(TAKE, 0, 1.0), (RUN, 0, use), (GIVE, 1, 1.0), (PASS, 0, 0.0)] * 50
    assert pace(replayed([consumer, producer], 2, [0.0, 2.0])) == pytest.approx(
        max(make, use)
    )


def test_on_one_core_they_take_turns() -> None:
    producer = [(TAKE, 1, 1.0), (RUN, 0, 3e-3), (GIVE, 0, 1.0)] * 50
    consumer = [(TAKE, 0, 1.0), (RUN, 0, 1e-3), (GIVE, 1, 1.0), (PASS, 0, 0.0)] * 50
    assert pace(replayed([consumer, producer], 1, [0.0, 2.0])) == pytest.approx(
        4e-3, rel=0.02
    )


def test_a_barrier_waits_for_the_straggler() -> None:
    works = (1e-3, 1e-3, 5e-3)
    hub = (
        [(GIVE, i, 1.0) for i in range(3)]
        + [(TAKE, 3 + i, 1.0) for i in range(3)]
        + [(RUN, 0, 2e-3), (PASS, 0, 0.0)]
    )
    workers = [
        [(TAKE, i, 1.0), (RUN, 0, work), (GIVE, 3 + i, 1.0)] * 40
        for i, work in enumerate(works)
    ]
    assert pace(replayed([hub * 40, *workers], 4, [0.0] * 6)) == pytest.approx(7e-3)


def test_an_interpreter_lock_lets_one_thread_run() -> None:
    thread = [(RUN_GIL, 0, 2e-3), (PASS, 0, 0.0)] * 40
    assert pace(replayed([thread, thread], 2, process=[0, 0])) == pytest.approx(4e-3)
    assert pace(replayed([thread, thread], 2, process=[0, 1])) == pytest.approx(2e-3)


def test_more_threads_than_cores_share_them() -> None:
    thread = [(RUN, 0, 1e-3), (PASS, 0, 0.0)] * 400
    found = replayed([thread] * 4, 2)
    assert found.end == pytest.approx(0.8, rel=0.03)


def test_a_wait_that_nobody_ends_is_counted() -> None:
    found = replayed([[(TAKE, 0, 1.0), (RUN, 0, 1e-3), (PASS, 0, 0.0)]], 1, [0.0])
    assert (found.forced, len(found.passes)) == (1, 1)


def test_items_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="fit together"):
        replayed([[(TAKE, 7, 1.0)]], 1, [0.0])


@pytest.mark.parametrize("seed", range(20))
def test_the_twin_agrees(seed: int) -> None:
    draw = random.Random(seed)
    kinds = [RUN, RUN, RUN_GIL, RUN_GIL, DELAY, GIVE, GIVE, TAKE, PEEK, PASS]
    threads: list[list[Item]] = []
    for _ in range(5):
        row: list[Item] = []
        for _ in range(200):
            kind = draw.choice(kinds)
            timed = kind in (RUN, RUN_GIL, DELAY)
            row.append(
                (
                    kind,
                    0 if timed else draw.randrange(3),
                    draw.uniform(1e-4, 3e-3) if timed else 1.0,
                )
            )
        threads.append(row)
    process, channels = [0, 0, 0, 1, 1], [500.0, 100.0, 200.0]
    found = replayed(threads, 5, channels, process)
    assert found.passes == pytest.approx(Twin(threads, process, channels).run())


def served(actors: int, wanted: float) -> list[list[Item]]:
    """A server that answers in batches (1 ms, and 1 ms for each), and actors that step for 4 ms; the server marks the batches."""
    batch: list[Item] = [(COLLECT, 0, wanted), (RUN, 0, 1e-3), (EACH, 0, 1e-3)]
    server = [*batch, (ANSWER, 0, 0.0), (PASS, 0, 0.0)] * 60
    actor: list[Item] = [(RUN, 0, 4e-3), (ASK, 0, 0.0)] * 60
    return [server, *([actor] * actors)]


def test_a_server_waits_for_a_full_batch() -> None:
    # All four step for 4 ms, then wait for 1 + 4 ms; in two groups, the server is busy for 3 ms with each.
    assert pace(replayed(served(4, 4), 8, [0.0])) == pytest.approx(9e-3)
    assert pace(replayed(served(4, 2), 8, [0.0])) == pytest.approx(3.5e-3, rel=0.02)


def test_a_server_that_takes_who_is_there_answers_all_of_them() -> None:
    threads = served(3, 0)
    found, twin = replayed(threads, 8, [0.0]), Twin(threads, [0, 1, 2, 3], [0.0])
    assert found.passes == pytest.approx(twin.run())
    assert found.asked == twin.asked
    assert found.asked[-1] > 60


def test_a_batch_that_is_never_full_is_counted_as_stuck() -> None:
    found = replayed(served(2, 3), 8, [0.0])
    assert found.forced > 100
    assert found.passes == []
