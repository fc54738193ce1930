"""How experience is cut into overlapping unrolls, and the queue they travel in."""

import threading

import numpy as np
import pytest

from cutaway_workloads.r2d2.envs import EnvSpec
from cutaway_workloads.r2d2.shared import context
from cutaway_workloads.r2d2.unrolls import Layout, UnrollQueue, UnrollStore

pytestmark = pytest.mark.core

SPEC = EnvSpec((1,), "float32", actions=2)


def step(number: float, envs: int = 1):
    return {
        "obs": np.full((envs, 1), number, np.float32),
        "reward": np.full(envs, number, np.float32),
        "done": np.zeros(envs, np.uint8),
        "action": np.full(envs, int(number) % 2),
        "output": np.full((envs, 2), number, np.float32),
    }


def state(number: float):
    one = np.full((1, 1), number, np.float32)
    return {
        "h": one,
        "c": -one,
        "previous": np.zeros((1, 0, 1), np.float32),
        "previous_action": np.array([1]),
    }


def test_unrolls_overlap_by_burn_in_and_one_step_and_start_with_the_state_of_then():
    store = UnrollStore(
        Layout(SPEC, length=2 + 3 + 1, overlap=2, lstm=1), environments=1
    )
    emitted, env = [], np.array([0])

    def write(unroll):
        emitted.append({name: np.copy(value) for name, value in unroll.items()})
        return True

    for number in range(1, 11):
        if store.starting(env).size:
            store.remember(env, state(100 + number))
        for done in store.append(env, step(number)):
            store.finish(done, write)
    assert [u["reward"].tolist() for u in emitted] == [
        [
            0,
            0,
            1,
            2,
            3,
            4,
        ],  # before the first step: padding that counts as ended episodes
        [2, 3, 4, 5, 6, 7],
        [5, 6, 7, 8, 9, 10],
    ]
    assert emitted[0]["done"].tolist() == [1, 1, 0, 0, 0, 0]
    assert [float(u["h"][0]) for u in emitted] == [0.0, 102.0, 105.0]
    assert [int(u["previous_action"]) for u in emitted] == [0, 1, 1]


def test_a_reset_forgets_one_environment_only():
    store = UnrollStore(Layout(SPEC, length=4, overlap=0, lstm=1), environments=2)
    both = np.array([0, 1])
    store.append(both, step(1, 2))
    store.append(both, step(2, 2))
    store.reset(np.array([1]))
    store.append(both, step(3, 2))
    assert store.append(both, step(4, 2)) == [0]
    assert store.data["reward"][1].tolist() == [3, 4, 0, 0]


def test_a_full_queue_blocks_the_writer_until_the_reader_takes_one():
    layout = Layout(SPEC, length=2, overlap=0, lstm=1)
    queue = UnrollQueue(context(), layout, capacity=2)
    made = []

    def produce():
        for number in range(5):
            unroll = {name: array[0] for name, array in layout.zeros(1).items()}
            unroll["reward"][:] = number
            made.append(queue.put(unroll))

    writer = threading.Thread(target=produce)
    writer.start()
    taken = layout.zeros(5)
    assert queue.get(taken, 0, timeout=300)
    assert len(made) <= 4  # one taken, two in the queue, at most one on its way
    for row in range(1, 5):
        assert queue.get(taken, row, timeout=300)
    writer.join()
    assert taken["reward"][:, 0].tolist() == [0, 1, 2, 3, 4]
    assert not queue.get(taken, 0, timeout=0)


def test_a_closed_queue_lets_a_blocked_writer_go():
    layout = Layout(SPEC, length=2, overlap=0, lstm=1)
    queue = UnrollQueue(context(), layout, capacity=1)
    unroll = {name: array[0] for name, array in layout.zeros(1).items()}
    assert queue.put(unroll)
    queue.close()
    assert not queue.put(unroll)
