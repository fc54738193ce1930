"""Every kind of device work there is, on the device of the CUPTI double."""

import ctypes
import os

import cutaway

if "FAKE_CUDA" in os.environ:
    ctypes.CDLL(os.environ["FAKE_CUDA"])
ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()  # libcuda would

cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
wide = ctypes.c_uint64
with cutaway.operation("replay"):
    cuda.fake_copy(7, wide(4096), 0)
    cuda.fake_set(7, wide(512))
with cutaway.operation("sync"):
    cuda.fake_copy(8, wide(8192), 1)
with cutaway.operation("inference"):
    cuda.fake_launch_graph(9, wide(1000))
    cuda.fake_launch(b"_Z6kernelPfi", 9, wide(500), 0)
    cuda.fake_synchronize()
cuda.fake_overhead(wide(300))
