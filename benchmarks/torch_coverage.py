"""Which share of torch.profiler's own operator time, on the calling thread, lies inside the recorded layer backend.

    python benchmarks/torch_coverage.py         for PPO, DQN and SAC of Stable-Baselines3

The two recordings are of the same run: both time stamps are mapped to one clock, and an operator counts as covered for as long as it lies
inside a recorded native call of torch.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

from cutaway import _recorder
from cutaway.record import layers
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind

_ENVIRONMENTS = {"PPO": "CartPole-v1", "DQN": "CartPole-v1", "SAC": "Pendulum-v1"}
_OPTIONS: dict[str, dict[str, Any]] = {
    "PPO": {"n_steps": 64, "n_epochs": 2},
    "DQN": {"learning_starts": 8, "train_freq": 4},
    "SAC": {"learning_starts": 8},
}


def learner(algorithm: str) -> Any:
    """A small learner of Stable-Baselines3 on the CPU."""
    import stable_baselines3

    torch.set_num_threads(1)
    make = getattr(stable_baselines3, algorithm)
    return make(
        "MlpPolicy",
        _ENVIRONMENTS[algorithm],
        device="cpu",
        seed=0,
        **_OPTIONS[algorithm],
    )


def covered_share(profiled: Any, run: Path) -> tuple[float, int]:
    """Covered share of the outermost operators' time, and how many operators there were."""
    starts, ends = _operators(profiled)
    inside = _overlap(starts, ends, *_backend(run))
    return float(inside.sum() / (ends - starts).sum()), len(starts)


def _operators(profiled: Any) -> tuple[Any, Any]:
    """Outermost aten operators of the calling thread, in nanoseconds of the wall clock."""
    events = [
        e
        for e in profiled.profiler.kineto_results.events()
        if e.name().startswith("aten::")
    ]
    thread = max(
        {e.start_thread_id() for e in events},
        key=lambda t: sum(e.start_thread_id() == t for e in events),
    )
    spans = sorted(
        (e.start_ns(), e.start_ns() + e.duration_ns())
        for e in events
        if e.start_thread_id() == thread
    )
    outermost: list[tuple[int, int]] = []
    for start, end in spans:
        if not outermost or start >= outermost[-1][1]:
            outermost.append((start, end))
    return tuple(np.array(outermost, dtype=np.int64).T)  # type: ignore[return-value]


def _backend(run: Path) -> tuple[Any, Any]:
    """Spans of layer backend on the busiest thread, merged, in nanoseconds of the wall clock."""
    (process,) = read_run(run).processes
    backend = {id for id, call in process.log.calls.items() if call.layer == "backend"}
    thread = max(process.threads, key=lambda t: sum(len(r) for r in process.records(t)))
    spans, depth, begun = [], 0, 0
    for records in process.records(thread):
        for time, value, tag in records.tolist():
            kind, id = tag & 0xFF, tag >> 8
            if id not in backend:
                continue
            if kind == Kind.CALL and depth == 0:
                spans.append((time, time + value))
            elif kind == Kind.ENTER:
                begun = time if depth == 0 else begun
                depth += 1
            elif kind == Kind.EXIT:
                depth -= 1
                if depth == 0:
                    spans.append((begun, time))
    anchor = process.log.anchors[0]
    ticks = np.array(spans, dtype=np.int64)
    mono = process.to_ns(ticks.ravel(), 0).reshape(-1, 2)
    wall = np.asarray(mono) + (anchor.real - anchor.mono)
    return wall[:, 0], wall[:, 1]


def _overlap(starts: Any, ends: Any, inner_starts: Any, inner_ends: Any) -> Any:
    """For each outer span, how much of it the disjoint, sorted inner spans cover."""
    lengths = np.concatenate([[0], np.cumsum(inner_ends - inner_starts)])

    def covered_until(t: Any) -> Any:
        k = np.searchsorted(inner_starts, t, side="right")
        last = np.clip(k - 1, 0, None)
        partial = np.where(
            k > 0, np.minimum(t, inner_ends[last]) - inner_starts[last], 0
        )
        return np.where(k > 0, lengths[last] + partial, 0)

    return covered_until(ends) - covered_until(starts)


def measure(algorithm: str, steps: int, folder: Path) -> tuple[float, int]:
    """Trains a little, recorded by both."""
    model = learner(algorithm)
    model.learn(24)  # what is made once is made
    _recorder.start(str(folder))
    layers.install()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        model.learn(steps, reset_num_timesteps=False)
    layers.remove()
    _recorder.stop()
    (folder / "run.json").touch()
    return covered_share(profiled, folder)


def main() -> None:
    for algorithm in _ENVIRONMENTS:
        with tempfile.TemporaryDirectory() as folder:
            share, operators = measure(algorithm, 512, Path(folder) / "run.cutaway")
            print(
                f"{algorithm}: {share:.2%} of the time of {operators} aten operators lies in layer backend"
            )


if __name__ == "__main__":
    main()
