"""Samples the meters for a moment in a run, as on a machine with a driver; what answers is libnvidia-ml.so.1 as it is found.

With "ask" it prints what `connect` says instead, and what the first reading is.
"""

import ctypes
import json
import os
import sys
import time

import cutaway
from cutaway.record import meters
from cutaway.record.meters import nvml

nvml.driver_present = lambda: True  # the one thing that is not so here: its files

if "ask" in sys.argv:
    gpus, reason = nvml.connect()
    print(json.dumps([gpus.read() if gpus else None, reason]))
else:
    ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()  # libcuda would
    cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
    meters.start(os.environ["CUTAWAY"])
    time.sleep(0.1)
    for name, ms in (("inference", 100), ("backpropagation", 300)):
        with cutaway.operation(name):
            cuda.fake_launch(name.encode(), 7, ctypes.c_uint64(ms * 1000), 0)
            cuda.fake_synchronize()
    time.sleep(float(sys.argv[1]))
    meters.stop()
