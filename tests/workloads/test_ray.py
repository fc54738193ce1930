"""The same program on a Ray cluster of two nodes."""

import os
import signal
import threading

import pytest
import ray
from ray._private import services
from ray.cluster_utils import Cluster

from cutaway_workloads.r2d2 import envs
from cutaway_workloads.r2d2.config import Config, NetworkConfig
from cutaway_workloads.r2d2.ray_backend import RaySource
from cutaway_workloads.r2d2.train import make_net

CONFIG = Config(
    env="tmaze:3",
    actors=1,
    envs_per_actor=2,
    unroll=5,
    burn_in=2,
    ray_groups=2,
    ray_batch=4,
    network=NetworkConfig(8, 8, 8),
)


def patiently(gcs_address, socket, timeout, wait=services.wait_for_node):
    return wait(gcs_address, socket, max(timeout, 300))


@pytest.fixture
def cluster(monkeypatch):
    os.environ["RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO"] = "0"
    # On a busy machine the usual 30 s may not do.
    monkeypatch.setenv("RAY_gcs_server_port_wait_time_s", "300")
    monkeypatch.setattr(services, "wait_for_node", patiently)
    nodes = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    nodes.add_node(num_cpus=1)
    ray.init(address=nodes.address, log_to_driver=False)
    yield nodes
    ray.shutdown()
    nodes.shutdown()


def test_groups_lie_on_both_nodes_carry_unrolls_in_batches_and_come_back_from_the_dead(
    cluster,
):
    spec = envs.make(CONFIG.env, 0).spec
    source, go_on = RaySource(CONFIG, spec, make_net(CONFIG, spec)), threading.Event()
    source.start()
    first = source.take(10, go_on)
    assert first is not None and first["obs"].shape == (10, CONFIG.length, 4)
    places = ray.get([group.where.remote() for group in source.groups.values()])
    assert len({node for node, _ in places}) == 2

    os.kill(places[0][1], signal.SIGKILL)
    while source.restarts == 0 or len(source.counters.reports) < 2:
        assert source.take(4, go_on) is not None
    assert source.counters.steps >= 5 * (
        3 * 4 + 4
    )  # three batches for the ten, and one of the successor
    go_on.set()
    assert source.take(10_000, go_on) is None
    source.stop()
