"""Evidence made for a rule: a run without a bottleneck, changed in what a test is about; `CASES` has one for each rule."""

from __future__ import annotations

from dataclasses import replace

from cutaway.analysis.counters import Use
from cutaway.analysis.rollouts import Rollouts
from cutaway.reports.evidence import Blocked, Evidence


def even(**changes: object) -> Evidence:
    """A run without a bottleneck, changed in the fields a test is about."""
    base = Evidence(
        seconds=60.0,
        units=100,
        unit_ms=600.0,
        operation={
            "simulation": 0.35,
            "inference": 0.3,
            "backpropagation": 0.3,
            "": 0.05,
        },
        layer={"python": 0.35, "simulator": 0.2, "backend": 0.45},
        cell={
            ("simulation", "python"): 0.15,
            ("simulation", "simulator"): 0.2,
            ("inference", "backend"): 0.2,
            ("inference", "python"): 0.1,
            ("backpropagation", "backend"): 0.25,
            ("backpropagation", "python"): 0.05,
            ("", "python"): 0.05,
        },
        threads=4,
        processes=1,
        cores=8,
        cores_busy=2.0,
        other_cores=0.0,
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def owning(operation: str, share: float = 0.6, layer: str = "backend") -> Evidence:
    rest = 1 - share
    return even(
        operation={operation: share, "other": rest / 2, "more": rest / 2},
        layer={layer: share, "python": rest},
        cell={
            (operation, layer): share,
            ("other", "python"): rest / 2,
            ("more", "python"): rest / 2,
        },
    )


workers = Blocked("env worker", 6, 0.58, "simulation", simulated=2.0)


def counted(compute: float | None, dram: float | None, replayed: bool = False) -> Use:
    """What hardware counters say."""
    return Use(replayed, 100, 8.0, compute, dram, 0.3, "gemm")


CASES = {
    "hang": even(
        hang="train was still inside Tensor.item (train.py:9) for 23 s when it was killed"
    ),
    "far-from-peak": even(device_busy=0.9, use=counted(compute=0.07, dram=0.04)),
    "bandwidth-bound": even(device_busy=0.9, use=counted(compute=0.2, dram=0.8)),
    "compute-bound": even(device_busy=0.9, use=counted(compute=0.7, dram=0.5)),
    "counters-only": even(use=counted(compute=None, dram=0.4, replayed=True)),
    "thin-failed": even(
        operation={"": 1.0}, failure="The program failed with exit code 1."
    ),
    "thin-time": even(seconds=0.05),
    "one-jitted-call": even(
        unit="run",
        operation={"": 1.0},
        one_call=("block_until_ready", 0.6),
        libraries=frozenset({"jax"}),
    ),
    "thin-operations": even(operation={"": 0.8, "simulation": 0.2}),
    "workers-cost": even(
        operation={"simulation": 0.5, "backpropagation": 0.5},
        blocked=Blocked("env worker", 8, 0.45, "simulation", simulated=0.1),
    ),
    "cpu-oversubscription": even(runqueue=0.4, runnable=20.0, threads=64, processes=4),
    "long-tail": even(
        operation={"generation": 0.6, "backpropagation": 0.4},
        rollouts=Rollouts(decoding_ns=60, tail_ns=30, alone_ns=20, peak=8, mean=3.0),
        tail=0.3,
    ),
    "weight-sync": even(
        operation={"generation": 0.4, "sync": 0.3, "backpropagation": 0.3},
        sync_steps={"update": 0.2, "pause": 0.1},
    ),
    "trainer-starved": even(
        sample_wait=0.6, rollouts=Rollouts(queue=0.2, queue_empty=0.8)
    ),
    "stale": even(rollouts=Rollouts(staleness=3.0, staleness_most=5.0)),
    "rollout-starved": even(generators_idle=0.7, sample_wait=0.05),
    "transfer-bound": even(copies=0.4, device_busy=0.5),
    "accelerator-bound": even(gpu_bound=0.6, device_busy=0.8, nvidia_smi=1.0),
    "launch-bound": even(
        layer={"accelerator_api": 0.4, "python": 0.6},
        cell={("inference", "accelerator_api"): 0.4},
        device_busy=0.1,
    ),
    "straggler": even(
        blocked=replace(workers, slowest="env-09", slowest_ratio=1.8, simulated=2.0)
    ),
    "thin-workers": even(
        blocked=workers, queued=0.5, workers_queued=0.5, other_cores=7.0
    ),
    "simulation-bound-workers": even(
        blocked=workers, device_busy=0.17, nvidia_smi=0.74
    ),
    "inference-bound-server": even(blocked=Blocked("inference", 1, 0.5, "inference")),
    "gil": even(layer={"wait": 0.4, "python": 0.6}, gil=0.4),
    "learner-starved": even(
        layer={"wait": 0.6, "backend": 0.4},
        cell={("", "wait"): 0.6, ("backpropagation", "backend"): 0.4},
        operation={"": 0.6, "backpropagation": 0.4},
        sample_makers=2,
    ),
    "waiting": even(
        layer={"wait": 0.6, "python": 0.4},
        cell={("sync", "wait"): 0.6, ("sync", "python"): 0.4},
    ),
    "thin-shared": even(
        layer={"wait": 0.12, "python": 0.88},
        cell={("simulation", "python"): 0.88},
        queued=0.85,
        other_cores=7.0,
    ),
    "python-glue": even(
        layer={"python": 0.7, "backend": 0.3}, cell={("simulation", "python"): 0.7}
    ),
    "native-bound": even(
        layer={"native": 0.7, "python": 0.3}, cell={("replay", "native"): 0.7}
    ),
    "simulation-bound": owning("simulation", layer="simulator"),
    "inference-bound": owning("inference"),
    "backpropagation-bound": owning("backpropagation"),
    "replay-bound": owning("replay"),
    "sync-bound": owning("sync"),
    "evaluation-bound": owning("evaluation"),
    "checkpoint-bound": owning("checkpoint"),
    "compile-bound": owning("compile"),
    "search-bound": owning("search"),
    "tool-bound": owning("tool"),
    "generation-bound": owning("generation"),
    "reward-bound": owning("reward"),
    "reference-bound": owning("reference"),
    "operation-bound": owning("my own part"),
    "thin-starved": even(queued=0.7, other_cores=7.0),
    "unnamed": even(operation={"": 0.5, "simulation": 0.3, "inference": 0.2}),
    "balanced": even(),
}
