"""The processes of a run on an emulated accelerator: deaths are survived, limits are kept."""

import multiprocessing
import os
import signal
import threading
import time
from pathlib import Path

import pytest

from cutaway.errors import CutawayError
from cutaway_workloads.r2d2 import envs
from cutaway_workloads.r2d2.config import Config, EmulatedDevice
from cutaway_workloads.r2d2.engine import Engine

pytestmark = pytest.mark.core

CONFIG = Config(
    env="tmaze:3",
    actors=3,
    envs_per_actor=2,
    unroll=5,
    burn_in=2,
    queue=4,
    emulate=EmulatedDevice(50.0, 5.0),
)
SPEC = envs.make("tmaze:3", 0).spec


@pytest.fixture
def engine():
    engine = Engine(CONFIG, SPEC, None)
    engine.start()
    yield engine
    engine.stop()
    assert not any(process.is_alive() for process in engine.actors)


def test_processes_have_the_names_of_their_roles(engine):
    assert [p.name for p in engine.actors] == ["actor-00", "actor-01", "actor-02"]
    assert engine._inference.name == "inference"


def test_actors_let_inference_and_learning_first(engine):
    requests = engine.slots.block.arrays()["request"]
    while not requests.all():  # until all are at work
        assert engine.take(4, threading.Event()) is not None
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    for process in engine.actors:
        assert os.sched_getscheduler(process.pid) == os.SCHED_BATCH
        assert os.getpriority(os.PRIO_PROCESS, process.pid) == min(19, mine + 5)
    assert os.sched_getscheduler(engine._inference.pid) == os.SCHED_OTHER


def test_a_killed_actor_is_replaced_and_counted_and_nobody_waits_for_it(engine):
    go_on = threading.Event()
    assert engine.take(12, go_on) is not None
    victim = engine.actors[1]
    os.kill(victim.pid, signal.SIGKILL)
    while engine.restarts == 0:
        assert engine.take(4, go_on) is not None
    requests = engine.slots.block.arrays()["request"]
    before = int(requests[1])
    while int(requests[1]) < before + 20:  # the successor works
        assert engine.take(4, go_on) is not None
    assert engine.restarts == 1
    assert engine.actors[1].pid != victim.pid and victim.exitcode == -signal.SIGKILL


def test_a_dead_inference_server_is_an_error_not_a_wait(engine):
    assert engine.take(2, threading.Event()) is not None
    os.kill(engine._inference.pid, signal.SIGKILL)
    with pytest.raises(CutawayError, match="inference process died"):
        while True:
            engine.take(4, threading.Event())


def start_and_tell(connection) -> None:
    """A learner that tells its children's process ids and then does nothing."""
    engine = Engine(CONFIG, SPEC, None)
    engine.start()
    engine.take(2, threading.Event())
    connection.send([engine._inference.pid, *[p.pid for p in engine.actors]])
    connection.recv()


def test_nobody_outlives_a_killed_learner():
    ctx = multiprocessing.get_context("spawn")
    mine, its = ctx.Pipe()
    learner = ctx.Process(target=start_and_tell, args=(its,))
    learner.start()
    left = mine.recv()
    os.kill(learner.pid, signal.SIGKILL)
    learner.join()
    while left:  # ends only when all of them have left
        left = [pid for pid in left if Path(f"/proc/{pid}").exists()]
        time.sleep(0.05)


def test_actors_that_cannot_work_end_the_run():
    engine = Engine(
        Config(env="tmaze:none", actors=1, emulate=EmulatedDevice(1.0, 1.0)), SPEC, None
    )
    engine.start()
    with pytest.raises(CutawayError, match="Actor 0 died 3 times in a row"):
        engine.take(1, threading.Event())
    engine.stop()
    assert engine.restarts == 2


def test_what_an_unroll_tells_follows_the_rules_of_the_maze(engine):
    """No step is lost, told twice, or told of another environment."""
    unrolls, seen = engine.take(200, threading.Event()), set()
    for row in range(200):
        obs, action, reward, done = (
            unrolls[name][row] for name in ("obs", "action", "reward", "done")
        )
        for t in range(CONFIG.length - 1):
            if not obs[t].any():
                continue  # padding before an environment's first step
            junction, ended = bool(obs[t, 3]), bool(done[t + 1])
            seen.add((junction, ended))
            assert obs[t + 1, :2].any() == ended  # a cue is shown first, and only then
            if junction and action[t] > 0:
                assert ended and abs(reward[t + 1]) == 1.0
            else:
                moved = action[t] == 0 and not junction
                assert reward[t + 1] == pytest.approx(0.0 if moved else -0.05)
    assert seen >= {(False, False), (True, False), (True, True)}


@pytest.mark.parametrize(
    "actors, envs_per_actor, asked, batch",
    [
        (1, 1, 0, 1),
        (8, 1, 0, 4),
        (4, 3, 0, 6),
        (1, 4, 0, 4),
        (256, 1, 0, 128),
        (8, 1, 3, 3),
        (2, 2, 99, 4),
    ],
)
def test_a_full_batch_is_half_of_all_environments_but_at_least_an_actors(
    actors, envs_per_actor, asked, batch
):
    config = Config(actors=actors, envs_per_actor=envs_per_actor, inference_batch=asked)
    assert config.inference_envs == batch


def test_the_learner_takes_as_many_unrolls_as_the_replay_ratio_allows():
    assert Config().unrolls_per_update == 42
    assert Config(algorithm="impala", batch=16).unrolls_per_update == 16
    assert Config().length == 141 and Config(algorithm="impala").length == 101
