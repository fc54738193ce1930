"""Samples the meters so many times in a run, as on a machine with a driver; what answers is libnvidia-ml.so.1 as it is found.

With "ask" it prints what `connect` says instead, and what the first reading is.
"""

import ctypes
import json
import os
import sys
import time
from pathlib import Path

import cutaway
from cutaway.record import meters

meters.driver_present = lambda: True  # the one thing that is not so here: its files


def wait_for(readings: int) -> None:
    """Until so many readings, or why there is none, are on disk: energy is known from the first one on."""
    until, found = time.monotonic() + 300, 0
    while found < readings and time.monotonic() < until:
        time.sleep(0.01)
        logs = [
            log.read_text() for log in Path(os.environ["CUTAWAY"]).glob("p*/log.jsonl")
        ]
        found = sum(
            readings if "GPU power and utilisation" in log else log.count('"gpu": [')
            for log in logs
        )


if "ask" in sys.argv:
    gpus, reason = meters.connect_nvml()
    print(json.dumps([gpus.read() if gpus else None, reason]))
else:
    ctypes.CDLL(
        os.environ["CUDA_INJECTION64_PATH"]
    ).InitializeInjection()  # libcuda would
    cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
    meters.start(os.environ["CUTAWAY"])
    wait_for(1)
    for name, ms in (("inference", 100), ("backpropagation", 300)):
        with cutaway.operation(name):
            cuda.fake_launch(name.encode(), 7, ctypes.c_uint64(ms * 1000), 0)
            cuda.fake_synchronize()
    wait_for(int(sys.argv[1]))
    meters.stop()
