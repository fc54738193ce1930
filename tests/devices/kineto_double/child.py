"""Inside a CUDA build of PyTorch, on the CUPTI double: what its Kineto makes of a stream of records, as JSON on stdout.

python child.py replay FILE     the records of a file, within one window of torch.profiler
python child.py hand-over       as part of a run: kernels before, in and after a window of the program's own
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# Most of CUDA's libraries are empty here: functions are looked for when called.
sys.setdlopenflags(os.RTLD_LAZY)

cupti = ctypes.CDLL(
    os.environ["CUTAWAY_CUPTI"]
)  # the file that libtorch_cpu.so finds by its name
cupti.fake_launch.argtypes = [
    ctypes.c_char_p,
    ctypes.c_uint32,
    ctypes.c_uint64,
    ctypes.c_int,
]
cupti.fake_replay.argtypes = [ctypes.c_char_p, ctypes.c_int]
if "hand-over" in sys.argv:
    ctypes.CDLL(
        os.environ["CUDA_INJECTION64_PATH"]
    ).InitializeInjection()  # libcuda would

import torch  # noqa: E402

# The double has no libcuda in which PyTorch could make a context.
torch.cuda.synchronize = lambda device=None: None
torch.cuda.is_initialized = lambda: True


def profiled(action: Any) -> Any:
    both = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=both) as profile:
        action()
    return profile


def replay(path: str) -> None:
    from cutaway.record.devices import kineto

    def action() -> None:
        cupti.fake_replay(path.encode(), 1)
        time.sleep(float(os.environ["REPLAY_SECONDS"]))

    profile = profiled(action)
    calls, work = kineto.take(profile.profiler.kineto_results)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        profile.export_chrome_trace(str(file))
        events = json.loads(file.read_text())["traceEvents"]
    told = {
        "calls": [c._asdict() for c in calls],
        "work": [w._asdict() for w in work],
        "json": events,
    }
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda, **told}))


def hand_over() -> None:
    import cutaway

    def launch(name: str) -> None:
        with cutaway.operation("inference"):
            cupti.fake_launch(name.encode(), 7, 500, 0)
        cupti.fake_synchronize()

    launch("before")
    profiled(lambda: launch("in_the_programs_window"))
    until = time.monotonic() + 3
    while time.monotonic() < until:
        launch("after")
        time.sleep(0.05)


if sys.argv[1] == "replay":
    replay(sys.argv[2])
else:
    hand_over()
