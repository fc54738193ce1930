"""Launchers that start processes of their own: joblib, torchrun, Ray."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from recorded import one, record, script


def test_joblib(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import joblib
        import cutaway
        def work(number):
            with cutaway.operation("work"): return number
        if __name__ == "__main__":
            print(sum(joblib.Parallel(2)(joblib.delayed(work)(n) for n in range(12))))
        """,
    )
    seen = record(tmp_path, "train.py")
    assert sum(p.operations["work"] for p in seen) == 12
    assert one(seen, name="train").operations["work"] == 0


def test_torchrun(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import torch, torch.distributed as dist
        dist.init_process_group("gloo")
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(5):
            weight.square().sum().backward()
            dist.all_reduce(weight.grad)
            optimizer.step()
        dist.destroy_process_group()
        """,
    )
    torchrun = Path(sys.executable).with_name("torchrun")
    command = (
        [torchrun]
        if torchrun.exists()
        else [sys.executable, "-m", "torch.distributed.run"]
    )
    seen = record(tmp_path, *command, "--standalone", "--nproc-per-node=2", "train.py")
    one(seen, role="launcher")
    for rank in range(2):
        process = one(seen, name=f"rank {rank}")
        assert process.operations["backpropagation"] == 10
        assert process.role == "learner"


@pytest.mark.parametrize("passed", ["inherited", "runtime_env"])
def test_ray(tmp_path: Path, passed: str) -> None:
    script(
        tmp_path,
        """
        import os, sys
        import gymnasium as gym, ray
        runtime = {}
        if sys.argv[1] == "runtime_env":  # as in a cluster that runs already
            runtime["env_vars"] = {"CUTAWAY": os.environ.pop("CUTAWAY")}
        quiet = dict(include_dashboard=False, logging_level="ERROR", log_to_driver=False)
        ray.init("local", num_cpus=2, runtime_env=runtime, **quiet)  # not what a killed run left behind
        @ray.remote
        class Sampler:
            def __init__(self): self.env = gym.make("CartPole-v1")
            def sample(self, steps):
                self.env.reset(seed=1)
                for _ in range(steps): self.env.step(0)
        samplers = [Sampler.remote() for _ in range(2)]
        ray.get([s.sample.remote(25) for s in samplers])
        ray.shutdown()
        """,
    )
    patient = {
        "RAY_gcs_server_port_wait_time_s": "300"
    }  # on a busy machine the usual 30 may not do
    seen = record(tmp_path, "train.py", passed, env=patient)
    samplers = [p for p in seen if p.name in ("Sampler#1", "Sampler#2")]
    assert [(p.role, p.steps) for p in samplers] == [("env worker", 25)] * 2
    assert one(seen, name="train").steps == 0
