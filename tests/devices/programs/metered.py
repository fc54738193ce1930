"""Samples the meters for a moment in a run, as on a machine with a driver; what answers is libnvidia-ml.so.1 as it is found.

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
from cutaway.record.meters import nvml

nvml.driver_present = lambda: True  # the one thing that is not so here: its files


def has_sampled() -> bool:
    """Whether the first reading, or why there is none, is on disk: energy is known from there on."""
    logs = [log.read_text() for log in Path(os.environ["CUTAWAY"]).glob("p*/log.jsonl")]
    return any('"energy_mj"' in text or "GPU power and utilisation" in text for text in logs)


if "ask" in sys.argv:
    gpus, reason = nvml.connect()
    print(json.dumps([gpus.read() if gpus else None, reason]))
else:
    ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()  # libcuda would
    cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
    meters.start(os.environ["CUTAWAY"])
    until = time.monotonic() + 30
    while not has_sampled() and time.monotonic() < until:
        time.sleep(0.01)
    for name, ms in (("inference", 100), ("backpropagation", 300)):
        with cutaway.operation(name):
            cuda.fake_launch(name.encode(), 7, ctypes.c_uint64(ms * 1000), 0)
            cuda.fake_synchronize()
    time.sleep(float(sys.argv[1]))
    meters.stop()
