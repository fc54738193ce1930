from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class Cpu:
    def __init__(
        self,
        threads: int,
        cores: int,
        smt_yield: float = ...,
        slice: float = ...,
        granularity: float = ...,
        wake: float = ...,
    ) -> None: ...

class Replayed:
    passes: list[float]
    busy: list[float]
    asked: list[int]
    end: float
    forced: int

def replay(
    kinds: NDArray[np.uint8],
    whats: NDArray[np.uint32],
    amounts: NDArray[np.float64],
    first: NDArray[np.int64],
    process: NDArray[np.int32],
    factors: NDArray[np.float64],
    channels: Sequence[float],
    leader: int,
    cpu: Cpu,
) -> Replayed: ...

class Service:
    mean: float
    cv: float
    def __init__(self, mean: float, cv: float = ...) -> None: ...

class Line:
    def __init__(self, a: float, b: float) -> None: ...
    def __call__(self, n: int) -> float: ...

class System:
    actors: int
    envs_per_actor: int
    threads: int
    cores: int
    smt_yield: float
    turbo: float
    wake: float
    foreign: float
    env_step: Service
    actor_overhead: Service
    host: Line
    reply: Line
    after: Line
    device: Line
    inference_cv: float
    batch: int
    timeout: float
    latency: float
    train_host: Service
    train_device: Service
    steps_per_train: float
    slice: float
    unroll: int
    queue: int
    device_on_cpu: bool
    def __init__(self) -> None: ...

class Result:
    steps_per_s: float
    cpu_busy: float
    device_busy: float
    server_busy: float
    mean_batch: float
    wait_cpu: float
    wait_inference: float
    train_per_s: float
    queue_full: float

def simulate(
    system: System, seed: int = 1, warmup_steps: int = 2000, steps: int = 20000
) -> Result: ...
