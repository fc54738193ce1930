"""One PyTorch thread: the tests share the machine with the processes they start."""

import importlib.util
import os

os.environ["OMP_NUM_THREADS"] = "1"
if importlib.util.find_spec("torch"):
    import torch

    torch.set_num_threads(1)
