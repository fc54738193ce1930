"""What is assumed about the study's machine and program (DGX-1, SEED RL's R2D2 on Atari), each as a range with its reason.

The ranges are sampled uniformly and were set before the results were compared. One thing was changed after that: how device time grows with
fewer SMs was a range (0.1 to 0.5 of it) and is now computed from the kernels' grids, because training fills 80 SMs many times over.
docs/balance.md shows the figures before and after, and a wider range for the actor's overhead that was tried and not kept.
"""

from __future__ import annotations

import dataclasses
import random

from cutaway.machines.machine import Machine, load
from cutaway_balance.demands import Demands, Line, Time
from studies.architecture import kernels

FORWARD_FLOPS = 2 * 12.0e6  # 12.0 M multiply-adds a frame
TRAIN_FORWARDS = 7.4  # forward-equivalents of training for each environment step
STEPS_PER_TRAIN = int(64 / 1.5) * 100  # unrolls of 100 steps at replay ratio 1.5
V100_FLOPS = 15.7e12

PRIORS = {
    # ALE with four frames a step: 470 to 720 µs measured on a 3 GHz server core; the study's cores run at 2.2 GHz
    "env_step_us": (600.0, 1000.0),
    # a gRPC client call with an 84×84 observation from a TensorFlow actor
    "actor_overhead_us": (200.0, 500.0),
    # the server's CPU: batching in C++, launching about 40 kernels
    "host_a_us": (200.0, 600.0),
    "host_b_us": (10.0, 40.0),
    # gRPC both ways and the hand-over between its threads: no resource, only time (SEED reports 6.5 to 15 ms end to end, queues included)
    "latency_ms": (0.5, 2.5),
    # about 40 dependent kernels of 5 to 15 µs
    "device_a_us": (200.0, 600.0),
    # share of the peak that small convolutions and a 512-wide LSTM reach
    "inference_efficiency": (0.15, 0.45),
    "train_efficiency": (0.3, 0.6),
    "train_host_ms": (10.0, 40.0),
    "smt_yield": (1.1, 1.3),
    "turbo": (0.75, 0.95),
}


def sample(seed: int) -> dict[str, float]:
    source = random.Random(seed)
    return {name: source.uniform(low, high) for name, (low, high) in PRIORS.items()}


def middle() -> dict[str, float]:
    return {name: (low + high) / 2 for name, (low, high) in PRIORS.items()}


def workload(p: dict[str, float], sms: int = 80) -> Demands:
    """The demands with `sms` of the 80 SMs: device time grows as the kernels' own grids, peaks and bandwidth say."""
    training, inference = (
        kernels.slowdown(part, sms) for part in ("training", "inference")
    )
    return Demands(
        env_step=Time(1e-6 * p["env_step_us"], cv=0.15),
        actor_overhead=Time(1e-6 * p["actor_overhead_us"], cv=0.2),
        host=Line(1e-6 * p["host_a_us"], 1e-6 * p["host_b_us"]),
        device=Line(
            1e-6 * p["device_a_us"] * max(1.0, 8 / sms),
            inference * FORWARD_FLOPS / (V100_FLOPS * p["inference_efficiency"]),
        ),
        inference_cv=0.1,
        latency=1e-3 * p["latency_ms"],
        train_host=Time(1e-3 * p["train_host_ms"], cv=0.1),
        train_device=Time(
            training
            * STEPS_PER_TRAIN
            * TRAIN_FORWARDS
            * FORWARD_FLOPS
            / (V100_FLOPS * p["train_efficiency"]),
            cv=0.05,
        ),
        steps_per_train=STEPS_PER_TRAIN,
    )


def machine(p: dict[str, float]) -> Machine:
    return dataclasses.replace(load("dgx1"), smt_yield=p["smt_yield"], turbo=p["turbo"])
