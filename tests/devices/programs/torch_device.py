"""A PyTorch program on the fake device. With "own" it uses torch.profiler itself; with "stays" that becomes CUPTI's client and
remains it, as the Kineto of a CUDA build does."""

import ctypes
import os
import sys
import time

import torch

import cutaway

device = ctypes.CDLL(sys.argv[1])
device.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_int64]
device.fake_register()


def wait_for_window() -> None:
    """Kineto asks a new device from the next window on."""
    while not device.fake_recording():
        time.sleep(0.001)


def train(name: str) -> None:
    for _ in range(4):
        with cutaway.operation("inference"):
            device.fake_launch(name.encode(), 10_000)
        with cutaway.operation("sync"):
            device.fake_synchronize()


if "stays" in sys.argv:
    cupti = ctypes.CDLL(os.environ["CUTAWAY_CUPTI"])
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        print(cupti.cuptiSubscribe(ctypes.byref(ctypes.c_void_p()), None, None))
        train("seen_by_the_program")
    wait_for_window()
    train("seen_in_a_window")
elif "own" in sys.argv:
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as profiler:
        train("seen_by_the_program")
    names = [event.name() for event in profiler.profiler.kineto_results.events()]
    print(names.count("seen_by_the_program"))
else:
    wait_for_window()
    train("seen_in_a_window")
