"""Slots, doorbell and replies between real processes."""

import numpy as np
import pytest

from cutaway_workloads.r2d2.envs import EnvSpec
from cutaway_workloads.r2d2.shared import context
from cutaway_workloads.r2d2.transport import Client, Port, Server, Slots

pytestmark = pytest.mark.core

SPEC = EnvSpec((84, 84), "uint8", actions=18)


def echo(port: Port, rounds: int) -> None:
    """Sends its number and the round; the reply must be their sum, for each of its environments."""
    client, i = Client(port), 0
    while _ask(client, port.actor, i):
        assert (client.action == port.actor + i).all()
        i += 1
    assert i >= rounds


def _ask(client: Client, mark: int, number: int) -> bool:
    client.obs[:], client.reward[:] = mark, number
    client.ask()
    return client.receive()


def start(slots: Slots, actor: int, rounds: int):
    process = context().Process(target=echo, args=(Port(slots, actor, 1), rounds))
    process.start()
    return process


def answer(server: Server, actors: list[int]) -> None:
    requests = server.read(actors)
    server.answer(requests, requests.obs[:, 5, 5] + requests.reward)


def test_every_request_gets_its_own_answer():
    slots = Slots(context(), SPEC, actors=3, envs_per_actor=2)
    processes = [start(slots, i, rounds=50) for i in range(3)]
    server, served = Server(slots), np.zeros(3)
    while served.min() < 51:
        actors = server.wait_full(4)
        answer(server, actors)
        served[actors] += 1
    slots.close()
    for process in processes:
        process.join()
    assert [p.exitcode for p in processes] == [0, 0, 0]


def client(slots: Slots, actor: int, generation: int = 1) -> Client:
    return Client(Port(slots, actor, generation))


def test_requests_are_served_in_the_order_they_came_whatever_the_actors_numbers():
    slots = Slots(context(), SPEC, actors=4, envs_per_actor=1)
    server, clients = Server(slots), [client(slots, i) for i in range(4)]
    clients[3].ask()
    assert server.wait_some(1, 0.0) == [3]
    answer(server, [3])
    for i in (2, 1):
        clients[i].ask()
        server._scan()
    clients[0].ask()
    clients[3].ask()
    assert server.wait_full(2) == [2, 1]
    assert server.wait_full(2) == [0, 3]


def test_a_full_batch_counts_environments_and_a_timeout_takes_what_is_there():
    slots = Slots(context(), SPEC, actors=4, envs_per_actor=3)
    server, clients = Server(slots), [client(slots, i) for i in range(4)]
    for c in clients[:3]:
        c.ask()
    assert len(server.wait_full(4)) == 2
    assert len(server.wait_some(12, timeout=0.001)) == 1


def test_the_successor_of_a_dead_actor_is_not_confused_by_its_predecessors_request():
    slots = Slots(context(), SPEC, actors=1, envs_per_actor=1)
    server, dead = Server(slots), client(slots, 0)
    dead.ask()
    server._scan()
    heir = client(slots, 0, generation=2)
    assert (
        server.arrays["generation"][0] == 1
    )  # the slot changes hands with the first request only
    heir.obs[:], heir.reward[:] = 7, 1
    heir.ask()
    assert server.wait_full(1) == [0]
    answer(server, [0])
    assert heir.receive() and heir.action[0] == 8
    assert server.arrays["generation"][0] == 2
    slots.close()
    assert server.wait_full(1) == []  # the two requests were one


def test_a_late_reply_to_the_predecessor_is_ignored():
    slots = Slots(context(), SPEC, actors=1, envs_per_actor=1)
    server, dead = Server(slots), client(slots, 0)
    dead.reward[:] = 1
    dead.ask()
    assert server.wait_full(1) == [0]
    requests = server.read([0])
    heir = client(slots, 0, generation=2)
    heir.reward[:] = 5
    heir.ask()
    server.answer(requests, np.array([1]))
    assert server.wait_full(1) == [0]
    answer(server, [0])
    assert heir.receive() and heir.action[0] == 5
