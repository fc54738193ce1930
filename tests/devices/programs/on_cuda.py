"""A Python program on the device of the CUPTI double: what libcuda and PyTorch would do, done by hand."""

import ctypes
import os
import signal
import sys
import threading

import cutaway

# libcuda, at its initialisation:
ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"]).InitializeInjection()

cuda = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
cuda.fake_launch.argtypes = [
    ctypes.c_char_p,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int,
]


def launch(name: str, microseconds: int = 500) -> None:
    cuda.fake_launch(name.encode(), 7, microseconds, 0)


launch("before_any")
with cutaway.operation("inference"):
    launch("outer")
    with cutaway.operation("replay"):
        launch("inner")
    launch("outer_again")
with cutaway.operation("simulation"):
    # The last one before the wait is long: it is still running then, however late this thread gets a core.
    thread = threading.Thread(target=launch, args=("other_thread", 100_000))
    thread.start()
    thread.join()
cutaway.phase("sgd")
with cutaway.operation("sync"):
    cuda.fake_synchronize()
if "killed" in sys.argv:
    cutaway.phase("evaluate")
    os.kill(os.getpid(), signal.SIGKILL)
if "late" in sys.argv:
    launch("finishes_after_everything")
