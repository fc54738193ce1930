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
        turbo: float = ...,
        foreign: float = ...,
        poll: float = ...,
    ) -> None: ...

class Replayed:
    passes: list[float]
    busy: list[float]
    asked: list[int]
    end: float
    cpu: float
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
    batch: Sequence[int] = ...,
) -> Replayed: ...
