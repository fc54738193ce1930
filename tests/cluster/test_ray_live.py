"""A Ray cluster of three hosts with names and networks of their own: workers record where they run."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from hosts import Hosts

import cutaway

# Ray does not start on hosts whose monotonic clocks are hours apart.
HOSTS = {
    "head": 0,
    "second": 0,
    "third": 0,
}

DRIVER = """
import os, time, cutaway, ray
ray.init(address=os.environ["RAY_ADDRESS"])
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

@ray.remote(num_cpus=0)
class Worker:
    def work(self, data):
        import cutaway
        with cutaway.operation("simulation"):
            time.sleep(0.02)
        return data

nodes = [node for node in ray.nodes() if node["Alive"]]
assert len(nodes) == 3
workers = [
    Worker.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)).remote() for node in nodes
]
for _ in range(20):
    cutaway.iteration()
    ray.get([worker.work.remote(b"x" * 100_000) for worker in workers])
print("worked")
"""
LOOK = "import sys; from cutaway.commands import main; sys.exit(main(sys.argv[1:]))"


def trainer(address: str) -> list[str]:
    """Our R2D2 with a group of actors on each node, for as long as a node takes to be missed."""
    words = "cutaway_workloads.r2d2 --env synthetic:200 --actors 1 --hidden 32 --unroll 10 --burn-in 5 --batch 4"
    limits = (
        "--replay-minimum 10 --ray 3 --ray-batch 2 --seconds 25 --progress-seconds 60"
    )
    return [*words.split(), *limits.split(), "--ray-address", address]


def ray_start(hosts: Hosts, host: str, folder: Path, *words: object) -> None:
    """Starts Ray on a host."""
    hosts.start_daemon(
        host, folder / f"{host}.log", sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=1", "--block",
        f"--node-ip-address={hosts.addresses[host]}", "--disable-usage-stats", *words,
    )  # fmt: skip


def test_parts_are_read_where_they_lie_and_gathered_and_a_lost_node_is_named(
    tmp_path: Path,
) -> None:
    (tmp_path / "driver.py").write_text(DRIVER)
    run = tmp_path / "run.cutaway"
    with Hosts(**HOSTS) as hosts:
        address = f"{hosts.addresses['head']}:6399"
        ray_start(
            hosts,
            "head",
            tmp_path,
            "--head",
            "--port=6399",
            "--include-dashboard=false",
        )
        hosts.wait_for(address)
        for host in ("second", "third"):
            ray_start(hosts, host, tmp_path, f"--address={address}")
        env = {
            "RAY_ADDRESS": address,
            "RAY_AUTH_MODE": "disabled",
            "CUTAWAY_LOCAL": str(tmp_path / "disks"),
        }
        hosts.wait_for_nodes(address, 3, env)

        def cutaway_on_head(*words: object, fails: bool = False) -> str:
            return hosts.run(
                "head",
                sys.executable,
                "-c",
                LOOK,
                *words,
                env=env,
                cwd=tmp_path,
                fails=fails,
            )

        told = cutaway_on_head("run", "--ray", "--in-place", "-o", run, "driver.py")
        assert f"cutaway show ray://{address}{run}" in told and not list(
            run.glob("host-*")
        )
        events = {
            path: path.stat().st_size
            for path in tmp_path.glob("disks/*/host-*/p*/events.bin")
        }
        there = json.loads(cutaway_on_head("show", "--json", f"ray://{address}{run}"))
        cutaway_on_head("report", f"ray://{address}{run}")
        assert "head: driver" in (tmp_path / "run.html").read_text()
        assert events == {
            path: path.stat().st_size
            for path in tmp_path.glob("disks/*/host-*/p*/events.bin")
        }

        cutaway_on_head("gather", run)
        here = json.loads(cutaway_on_head("show", "--json", run))
        for key in here.keys() - {"path"}:
            assert there[key] == here[key], key

        found = cutaway.open(run)
        names = [row["name"] for row in found.processes()]
        for host in HOSTS:
            assert any(name.startswith(f"{host}: Worker") for name in names), names
        busy = [row for row in found.operations() if row["operation"] == "simulation"]
        assert len(busy) == 3 and {row["count"] for row in busy} == {20}
        # All three clocks are one now: the workers' first tasks lie within the life of the driver.
        driver = next(row for row in found.processes() if row["name"] == "head: driver")
        for row in found.processes():
            error = max(clock.error_ns or 0 for clock in found.trace.hosts.values())
            assert (
                driver["start_ns"] - error
                <= row["start_ns"]
                <= driver["end_ns"] + error
            )

        # The distributed trainer loses a node in the middle. It goes on, the node is named, and the others' parts are there.
        trained = tmp_path / "r2d2.cutaway"
        child = hosts.start("head", sys.executable, "-c", LOOK, "run", "--ray", "-o", trained, "-m", *trainer(address),
                            env=env, cwd=tmp_path)  # fmt: skip
        until = time.monotonic() + 200
        while (
            not list(tmp_path.glob("disks/r2d2*/host-third/p*/events.bin"))
            and time.monotonic() < until
        ):
            time.sleep(0.5)
        hosts.kill("third")
        out, said = child.communicate(timeout=300)
        assert child.returncode == 0, (out, said)
        assert "third is lost" in said, said
        found = cutaway.open(trained)
        hosts_of = [process.host for process in found.trace.processes]
        assert set(hosts_of) >= {"head", "second"}
        done = {
            (hosts_of[row["process"]], row["operation"]) for row in found.operations()
        }
        assert done >= {
            ("head", "backpropagation"),
            ("second", "simulation"),
            ("second", "inference"),
        }, done
        names = [row["name"] for row in found.processes()]
        waited = {
            names[row["for_process"]]
            for row in found.waits()
            if row["for_process"] >= 0 and row["on"].startswith("actor:")
        }
        assert any(name.startswith("second: ") for name in waited), (waited, names)
        assert any(name.startswith("head: ") for name in names)
