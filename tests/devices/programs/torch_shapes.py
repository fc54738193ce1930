"""Matrix products that run on the fake device: aten::mm launches a kernel there. With "own" the program profiles itself."""

import ctypes
import sys
import time
import warnings

import torch

warnings.simplefilter("ignore")
device = ctypes.CDLL(sys.argv[1])
device.fake_launch.argtypes = [ctypes.c_char_p, ctypes.c_int64]
device.fake_register()


def wait_for_window() -> None:
    """Kineto asks a new device from the next window on."""
    while not device.fake_recording():
        time.sleep(0.001)


def on_device(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    device.fake_launch(b"fake_gemm", 2000)
    return a.new_empty(a.shape[0], b.shape[1])


overridden = torch.library.Library("aten", "IMPL")
overridden.impl("mm", on_device, "CPU")
a, b = torch.ones(64, 32), torch.ones(32, 16)


def train() -> None:
    for _ in range(3):
        torch.mm(a, b)
    device.fake_synchronize()
    device.fake_launch(b"outside_of_operators", 1000)
    device.fake_synchronize()


if "own" in sys.argv:
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True
    ):
        train()
else:
    wait_for_window()
    train()
