"""What if, from recordings of programs whose answer is known: they sleep where others work.

A loaded machine makes sleeps last longer. So the recording says who waits for whom, and each sleep lasts as long as the program asked
for. How exact predictions are on a real machine is measured by benchmarks/whatif.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest
from constructed import MS, batches, lockstep, served

import cutaway
from cutaway.analysis.run import Run
from cutaway.analysis.whatif.build import build
from cutaway.analysis.whatif.changes import apply
from cutaway.analysis.whatif.graph import Graph, Key, Segment, Thread
from cutaway.analysis.whatif.items import DELAY, PASS, RUN, Items
from cutaway.analysis.whatif.path import critical_path
from cutaway.analysis.whatif.predict import WhatIf
from cutaway.analysis.whatif.replay import replay
from cutaway.analysis.whatif.sizes import Second, Size, size_factors
from cutaway.analysis.whatif.structure import process_names
from cutaway.analysis.whatif.timeline import pauses
from cutaway.analysis.whatif.words import parse
from cutaway.errors import CutawayError
from cutaway.reports.digests import digest_of
from cutaway.reports.page.lanes import build_lanes
from cutaway.reports.replayed import replayed
from cutaway.reports.rules import HALVED
from cutaway.reports.rules.rule import ENDED
from cutaway.trace import format as fmt
from cutaway.vocabulary import Kind

pytestmark = [pytest.mark.core, pytest.mark.timeout(120)]

WORKERS = """
import multiprocessing, time, cutaway
def worker(pipe, seconds):
    while True:
        pipe.recv()
        with cutaway.operation("simulation"):
            time.sleep(seconds)
        pipe.send(b"x" * 1000)
if __name__ == "__main__":
    pipes = []
    for seconds in (0.01, 0.01, 0.04):
        here, there = multiprocessing.Pipe()
        multiprocessing.Process(target=worker, args=(there, seconds), daemon=True).start()
        pipes.append(here)
    for _ in range(40):
        for pipe in pipes:
            pipe.send(0)
        for pipe in pipes:
            pipe.recv()
        with cutaway.operation("backpropagation"):
            time.sleep(0.02)
        cutaway.iteration()
"""

QUEUE = """
import queue, threading, time, cutaway
made = queue.Queue(2)
def produce():
    while True:
        with cutaway.operation("simulation"):
            time.sleep(0.01)
        made.put(1)
threading.Thread(target=produce, daemon=True).start()
for _ in range(40):
    made.get()
    with cutaway.operation("backpropagation"):
        time.sleep(0.03)
    cutaway.iteration()
"""

MINIBATCHES = """
import time, cutaway
for _ in range(40):
    time.sleep(0.03)
    for _ in range(2):
        sum(range(1000))
        with cutaway.operation("backpropagation"):
            sum(range(1000))
            time.sleep(0.01)
            sum(range(1000))
    cutaway.iteration()
"""

ONE_THREAD = """
import time, cutaway
for _ in range(40):
    with cutaway.operation("simulation"):
        sum(range(1000))
        time.sleep(0.03)
        sum(range(1000))
    cutaway.iteration()
    with cutaway.operation("backpropagation"):
        sum(range(1000))
        time.sleep(0.02)
        sum(range(1000))
"""


def recorded(folder: Path, program: str) -> Path:
    (folder / "train.py").write_text(program)
    out = folder / "train.cutaway"
    command = [sys.executable, "-m", "cutaway", "run", "-o", str(out), "train.py"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    return out


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> WhatIf:
    run = recorded(tmp_path_factory.mktemp("workers"), WORKERS)
    asked = {"simulation": 0.01, "worker-3 simulation": 0.04, "backpropagation": 0.02}
    return exact(run, asked, 0.06)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> WhatIf:
    run = recorded(tmp_path_factory.mktemp("queue"), QUEUE)
    return exact(run, {"simulation": 0.01, "backpropagation": 0.03}, 0.03)


@pytest.fixture(scope="module")
def constructed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What WORKERS would record on a machine that takes no time for anything but sleeps."""
    return lockstep(tmp_path_factory.mktemp("constructed") / "train.cutaway")


_WORK = 1e-5
"""Seconds of CPU time of each piece of work, whatever it took."""


def exact(run: Path, asked: dict[str, float], iteration: float = 0.0) -> WhatIf:
    """The recorded graph, with sleeps as long as was asked for: by the name of a process and its operation, or by the operation.
    `iteration`: how long one lasts then; 0: as long as the replay says."""
    opened = cutaway.open(run)
    graph = build(opened)
    names = process_names(opened)

    def slept(key: Key) -> float:
        own = f"{names[key.process]} {key.operation}"
        asleep = asked.get(own, asked.get(key.operation, 0.0))
        return asleep if key.layer == "wait" else 0.0

    seconds = np.array([slept(key) for key in graph.keys])

    def timed(items: Items) -> Items:
        waits = items.kinds == DELAY
        amounts = np.where(items.kinds < DELAY, _WORK, items.amounts)
        amounts[waits] = seconds[items.whats[waits]]
        return Items(items.kinds, items.whats, amounts)

    def lasting(seconds: float) -> Graph:
        segments = [
            replace(
                segment,
                items=[*map(timed, segment.items)],
                seconds=[seconds] * len(segment.seconds),
            )
            for segment in graph.segments
        ]
        return replace(graph, segments=segments, wake=0.0, cores=8)

    known = WhatIf(opened, lasting(iteration or replay(lasting(1.0)).mean))
    known.spread = 0.0  # of times that are as the program asked for
    return known


def speedup(known: WhatIf, *changes: str) -> float:
    parsed = [change for word in changes for change in parse(word)]
    return known.predict(parsed, " ".join(changes)).speedup


def test_a_replay_without_a_change_takes_as_long_as_the_run(
    workers: WhatIf, pair: WhatIf, constructed: Path
) -> None:
    for known in (workers, pair, WhatIf(cutaway.open(constructed))):
        assert abs(known.error) < 0.02
        assert known.forced == 0


def test_the_straggler_carries_the_weight(workers: WhatIf) -> None:
    worth = workers.worth()
    by_process = [row.elasticity for row in worth if row.kind == "process"]
    # 40 of 60 ms wait for the third worker, 20 ms are the main process's own, nobody waits for the others.
    assert by_process == pytest.approx([0.66, 0.33, 0.0, 0.0], abs=0.08)


def test_faster_simulation_helps_as_far_as_the_rest_allows(workers: WhatIf) -> None:
    assert speedup(workers, "simulation=2x") == pytest.approx(60 / 40, rel=0.08)
    assert speedup(workers, "simulation=0") == pytest.approx(60 / 20, rel=0.12)
    assert speedup(workers, "update=0", "simulation=2x") == pytest.approx(
        60 / 20, rel=0.12
    )


def test_an_update_beside_the_rollout_hides_in_its_wait(workers: WhatIf) -> None:
    assert speedup(workers, "overlap=update") == pytest.approx(60 / 40, rel=0.08)


def test_a_pause_that_reaches_beyond_the_window_lasts_to_its_edge() -> None:
    rows = np.zeros(4, fmt.EVENT_DTYPE)
    rows["time"] = [10, 30, 40, 90]
    rows["kind"] = [Kind.RESUME, Kind.PAUSE, Kind.RESUME, Kind.PAUSE]
    assert pauses(rows, (5, 99)).tolist() == [[5, 10], [30, 40], [90, 99]]
    assert pauses(rows[1:3], (5, 99)).tolist() == [[30, 40]]
    assert pauses(rows[:1], (5, 99)).tolist() == [[5, 10]]
    assert pauses(rows[3:], (5, 99)).tolist() == [[90, 99]]


def test_what_lies_between_minibatches_does_not_end_the_update(tmp_path: Path) -> None:
    known = exact(
        recorded(tmp_path, MINIBATCHES), {"": 0.03, "backpropagation": 0.01}, 0.05
    )
    assert speedup(known, "overlap=update") == pytest.approx(50 / 30, rel=0.08)


def test_work_of_one_thread_is_split_where_it_changed(tmp_path: Path) -> None:
    run = exact(
        recorded(tmp_path, ONE_THREAD),
        {"simulation": 0.03, "backpropagation": 0.02},
        0.05,
    )
    assert speedup(run, "overlap=update,rollout") == pytest.approx(50 / 30, rel=0.08)
    assert speedup(run, "overlap=rollout,update") == pytest.approx(50 / 30, rel=0.08)


def test_actors_that_a_server_answers(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(served(tmp_path / "served.cutaway")))
    # Two actors get two answers in 11 ms. What a batch of four costs is not known: 1 ms, or 2.
    found = known.predict(parse("actors=4"), "actors=4")
    assert found.speedup == pytest.approx(2, rel=0.02)
    doubt = np.exp(np.hypot(found.recording, found.model))
    assert found.least * doubt == pytest.approx(2 * 11 / 12, rel=0.02)
    assert "waits for 4" in found.assumes[0]
    # One is answered at once.
    assert speedup(known, "actors=1") == pytest.approx(0.5 * 11 / 11, rel=0.08)


def test_a_batch_that_may_cost_anything_is_not_predicted(tmp_path: Path) -> None:
    known = WhatIf(cutaway.open(served(tmp_path / "served.cutaway", 4 * MS)))
    with pytest.raises(CutawayError, match="depending on how the cost of a batch"):
        known.predict(parse("actors=4"), "actors=4")


@pytest.mark.parametrize(("layer", "expected"), [("backend", 50 / 30), ("python", 1.0)])
def test_an_overlap_has_one_interpreter_lock(layer: str, expected: float) -> None:
    keys = [Key(0, 0, name, layer) for name in ("simulation", "backpropagation")]
    # The update goes on for a moment after each iteration has ended.
    kinds, whats, amounts = (
        [RUN, RUN, RUN, PASS],
        [1, 0, 1, 0],
        [1e-4, 0.03, 0.0199, 1.0],
    )
    items = Items(
        np.array(kinds * 20, np.uint8),
        np.array(whats * 20, np.uint32),
        np.array(amounts * 20, np.float64),
    )
    graph = Graph(
        [Thread(0, "main")], keys, [], [Segment([items], [], [0.05] * 20)], 0, 2
    )
    run = cast(Run, None)  # only names of lines and functions ask the run
    changed = apply(run, graph, parse("overlap=update,rollout"))
    assert replay(graph).mean / replay(
        changed.graph, changed.factors
    ).mean == pytest.approx(expected, rel=0.02)


def test_who_never_waited_will_wait_when_the_other_side_is_slower(pair: WhatIf) -> None:
    assert speedup(pair, "simulation=2x") == pytest.approx(1.0, rel=0.05)
    assert speedup(pair, "update=6x") == pytest.approx(
        30 / 10, rel=0.12
    )  # then the queue is empty
    assert speedup(pair, "simulation=0.2x") == pytest.approx(30 / 50, rel=0.08)


def test_the_verb_prints_the_error_of_the_replay_first(constructed: Path) -> None:
    command = [sys.executable, "-m", "cutaway", "what-if", str(constructed)]
    said = subprocess.run(
        [*command, "cores=1,2"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert said.startswith("replayed as recorded: ")
    assert "knee" in said
    assert max(map(len, said.splitlines())) <= 80
    table = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert "10 % faster" in table
    done = subprocess.run(
        [*command, "simulation=2x", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert json.loads(done.stdout)["predictions"][0]["speedup"] > 1.2


def test_a_run_without_iterations_says_so(tmp_path: Path) -> None:
    run = cutaway.open(recorded(tmp_path, "import time; time.sleep(0.05)"))
    with pytest.raises(CutawayError, match="no iterations"):
        WhatIf(run)


def test_workers_that_are_joined_step_one_after_the_other(workers: WhatIf) -> None:
    # 10 + 10 + 40 ms of simulation in the main process instead of 40 beside each other, and 20 ms.
    assert speedup(workers, "workers=0") == pytest.approx(60 / 80, rel=0.08)


def test_fewer_workers_share_the_environments(workers: WhatIf) -> None:
    # The first of two gets the straggler (40 ms) and another one (10 ms).
    assert speedup(workers, "workers=2") == pytest.approx(60 / 70, rel=0.08)


def test_more_environments_in_workers_of_their_own(workers: WhatIf) -> None:
    found = workers.predict([*parse("envs=6")], "envs=6")
    # As long as before, for twice the steps: the work of all of them fits beside each other.
    assert found.work == 2
    assert found.after == pytest.approx(found.before, rel=0.08)
    assert found.speedup == pytest.approx(2, rel=0.1)


def test_workers_that_step_several_environments_each(tmp_path: Path) -> None:
    # Two workers with two environments of 20 ms each.
    run = lockstep(tmp_path / "two.cutaway", (40, 40), each=2)
    known = WhatIf(cutaway.open(run))
    assert speedup(known, "workers=4") == pytest.approx(60 / 40, rel=0.02)
    assert speedup(known, "workers=0") == pytest.approx(60 / 100, rel=0.02)
    assert speedup(known, "workers=1") == pytest.approx(60 / 100, rel=0.02)
    found = known.predict(parse("envs=8"), "envs=8")
    assert found.work == 2
    assert found.speedup == pytest.approx(2, rel=0.02)
    with pytest.raises(CutawayError, match="no multiple"):
        known.predict(parse("envs=5"), "envs=5")


ACTORS = """
import multiprocessing, time, cutaway
def act(made):
    while True:
        with cutaway.operation("simulation"):
            time.sleep(0.04)
        made.put(b"x" * 1000)
if __name__ == "__main__":
    made = multiprocessing.Queue(4)
    for number in range(2):
        multiprocessing.Process(target=act, args=(made,), name=f"actor-{number}", daemon=True).start()
    for _ in range(60):
        made.get()
        with cutaway.operation("backpropagation"):
            time.sleep(0.008)
        cutaway.iteration()
"""


def test_more_actors_help_until_the_learner_is_busy(tmp_path: Path) -> None:
    known = exact(
        recorded(tmp_path, ACTORS), {"simulation": 0.04, "backpropagation": 0.008}
    )

    def after(actors: int) -> float:
        word = f"actors={actors}"
        return known.predict(parse(word), word).after

    # An actor makes an unroll every 40 ms, the learner needs 8 ms for one.
    assert after(1) == pytest.approx(0.04, rel=0.1)
    assert after(4) == pytest.approx(0.01, rel=0.1)
    assert after(12) == pytest.approx(0.008, rel=0.1)


def test_a_size_from_two_recordings(tmp_path: Path) -> None:
    runs = [
        cutaway.open(batches(tmp_path / f"{size}.cutaway", size)) for size in (32, 64)
    ]
    graph, second = build(runs[0]), Second(runs[1], 32, 64)
    update = [key.operation == "backpropagation" for key in graph.keys]

    def factor(value: int, name: str = "batch") -> float:
        return float(size_factors(runs[0], graph, Size(name, value), second)[update][0])

    # An update of n costs n / 10 ms, so twice the batch twice as much.
    assert [factor(32), factor(64), factor(96)] == pytest.approx([1, 2, 3], rel=1e-3)
    assert factor(1 << 20, "minibatch") == pytest.approx(3, rel=1e-3)
    found = WhatIf(runs[0]).predict(parse("batch=96"), "batch=96", second)
    assert found.speedup == pytest.approx(13.2 / 19.6, rel=0.01)


def test_the_verdict_estimates_by_replay(constructed: Path) -> None:
    run = cutaway.open(constructed)
    found = digest_of(run)
    half = replace(
        found.verdict, rule="backpropagation-bound", given=HALVED, speedup=9.0
    )
    # The main process waits for the others, so half of its 20 ms save 10 of 60.
    assert replayed(run, found, half).speedup == pytest.approx(60 / 50, rel=0.08)
    wait = replace(half, given="if that wait ended")
    assert replayed(run, found, wait).speedup == 9.0


def test_a_bound_of_the_verdict_gives_way_to_a_replay(constructed: Path) -> None:
    run = cutaway.open(constructed)
    found = digest_of(run)
    bound = replace(
        found.verdict, rule="straggler", given=ENDED, speedup=9.0, at_most=True
    )
    # 10, 10 and 40 ms are 20 each, beside 20 ms of the main process.
    even = replayed(run, found, bound)
    assert even.speedup == pytest.approx(60 / 40, rel=0.08)
    assert even.expected.endswith("if their work were even")
    assert not even.at_most
    workers = replayed(run, found, replace(bound, rule="simulation-bound-workers"))
    assert workers.speedup == pytest.approx(60 / 40, rel=0.08)
    assert workers.at_most


def test_the_critical_path_leads_through_the_straggler(constructed: Path) -> None:
    run = cutaway.open(constructed)
    begin = int(run.iterations()["start_ns"][10])
    path = critical_path(run, (begin, begin + 600 * MS))
    assert path is not None
    assert path.spent == [(3, "simulation", 400 * MS), (0, "backpropagation", 200 * MS)]
    own = [(piece.process, piece.stop - piece.start) for piece in path.pieces[:4]]
    assert own == [(3, 40 * MS), (0, 20 * MS)] * 2


def test_who_waits_for_nobody_has_no_path(tmp_path: Path) -> None:
    run = cutaway.open(batches(tmp_path / "batches.cutaway", 32))
    assert critical_path(run, (0, 1000 * MS)) is None


def test_the_page_draws_the_critical_path(constructed: Path) -> None:
    run = cutaway.open(constructed)
    lanes = build_lanes(run, digest_of(run))
    assert lanes is not None
    path, detail = lanes["path"], lanes["windows"][1]
    spent = {(name, operation): share for share, name, operation in path["shares"]}
    assert spent["worker-2", "simulation"] == pytest.approx(2 / 3, abs=0.1)
    assert spent["train", "backpropagation"] == pytest.approx(1 / 3, abs=0.1)
    # At any time the path lies on exactly one row.
    packed = zlib.decompress(base64.b64decode(path["data"]))
    drawn = np.frombuffer(packed, np.uint8).reshape(len(lanes["rows"]), detail["bins"])
    assert drawn.sum(axis=0) == pytest.approx(lanes["full"], abs=1)
