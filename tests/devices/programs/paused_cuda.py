"""Iterations on the device of the CUPTI double; recording pauses in some of them (calibration, or asked for)."""

import ctypes
import os
import sys
import time

import cutaway
from cutaway import _recorder

ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()  # libcuda would
cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])


def train(name: str, times: int) -> None:
    for _ in range(times):
        cutaway.iteration()
        with cutaway.operation("inference"):
            cuda.fake_launch(name.encode(), 7, ctypes.c_uint64(200), 0)
        with cutaway.operation("sync"):
            cuda.fake_synchronize()


if sys.argv[1] == "calibrated":
    for _ in range(60):
        train("work", 2)
        time.sleep(0.005)  # the shortest unit that is left out
elif sys.argv[1] == "limited":
    train("recorded", 3)
    cuda.cuptiActivityFlushAll(0)
    for _ in range(3000):
        with cutaway.operation("replay"):
            pass
    train("after_the_limit", 5)
else:
    train("recorded", 3)
    with cutaway.operation("inference"):
        cuda.fake_launch(b"launched_before_the_pause", 7, ctypes.c_uint64(50_000), 0)
    cuda.fake_wait_begun()
    _recorder.pause()
    train("left_out", 5)
    _recorder.resume()
    train("recorded", 2)
