"""A Python program on the device of the CUPTI double, for a while: kernels in one operation, nothing in the other."""

import ctypes
import os
import time

import cutaway

ctypes.CDLL(os.environ["FAKE_CUDA"], ctypes.RTLD_GLOBAL)
ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()
cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
cuda.fake_launch.argtypes = [
    ctypes.c_char_p,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int,
]
end = time.monotonic() + float(os.environ.get("SECONDS", "1"))
while time.monotonic() < end:
    cutaway.iteration()
    with cutaway.operation("inference"):
        cuda.fake_launch(b"kernel", 7, 15_000, 0)
        cuda.fake_synchronize()
    with cutaway.operation("simulation"):
        time.sleep(0.005)
