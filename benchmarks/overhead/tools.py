"""The tools that are compared: each can be switched on and off inside a running process."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Protocol


class Tool(Protocol):
    settle: int  # iterations after a switch that are not counted: caches and specialised code find their state again
    fine: bool  # cheap enough to switch at every block of a few iterations

    def on(self) -> None: ...
    def off(self) -> None: ...


class Cutaway:
    """Started once; off means that every exchanged pointer is put back, as for the iterations left out in a recording.

    That takes microseconds, so that it can be done for each block of a few iterations. The hooks in Python classes stay
    where they are; what they cost is measured by CutawayHooks.
    """

    settle = 0
    fine = True

    def __init__(self, **options: Any) -> None:
        self.folder = tempfile.mkdtemp(prefix="overhead-", suffix=".cutaway")
        self.options = options
        self.started = False

    def on(self) -> None:
        from cutaway import _recorder

        if not self.started:
            self.started = True
            _start(self.folder, **self.options)
        _recorder.resume()

    def off(self) -> None:
        from cutaway import _recorder

        _recorder.pause()


class CutawayMemory(Cutaway):
    """Sampling of allocations alone: everything else is recorded whether it is on or off."""

    settle = 1
    fine = False

    def __init__(self) -> None:
        super().__init__(memory=True)

    def on(self) -> None:
        from cutaway import _recorder

        super().on()
        _recorder.hook_memory(True)

    def off(self) -> None:
        from cutaway import _recorder

        _recorder.hook_memory(False)


class CutawayHooks:
    """Operations alone, really started and stopped: everything is out of the classes when it is off."""

    settle = 1
    fine = False

    def __init__(self) -> None:
        self.folder = tempfile.mkdtemp(prefix="overhead-", suffix=".cutaway")

    def on(self) -> None:
        _start(self.folder, layers=False)

    def off(self) -> None:
        from cutaway.record import session

        session.stop()
        for path in Path(self.folder).glob("p*-*"):
            shutil.rmtree(path)


def _start(folder: str, **options: Any) -> None:
    from cutaway.record import session
    from cutaway.record.options import Options

    assert session.start(
        Options(folder, collector="none", calibrate_share=0.0, **options)
    )


class CProfile:
    settle = 1
    fine = False

    def __init__(self) -> None:
        import cProfile

        self.profile = cProfile.Profile()

    def on(self) -> None:
        self.profile.enable()

    def off(self) -> None:
        self.profile.disable()


class Viztracer:
    settle = 1
    fine = False

    def on(self) -> None:
        from viztracer import VizTracer

        self.tracer = VizTracer(tracer_entries=2_000_000, verbose=0)
        self.tracer.start()

    def off(self) -> None:
        self.tracer.stop()
        self.tracer.clear()


class TorchProfiler:
    settle = 1
    fine = False

    def on(self) -> None:
        import torch.profiler as tp

        self.profile = tp.profile(activities=[tp.ProfilerActivity.CPU])
        self.profile.start()

    def off(self) -> None:
        self.profile.stop()


class Pyinstrument:
    settle = 1
    fine = False

    def on(self) -> None:
        from pyinstrument import Profiler

        self.profiler = Profiler()
        self.profiler.start()

    def off(self) -> None:
        self.profiler.stop()


class PySpy:
    """Reads our memory from another process, 100 times a second; it stops us while it does."""

    settle = 1
    fine = False

    def on(self) -> None:
        out = str(Path(tempfile.gettempdir()) / f"py-spy-{os.getpid()}.txt")
        program = shutil.which("py-spy") or str(
            Path(sys.executable).with_name("py-spy")
        )
        command = [
            program,
            "record",
            "-p",
            str(os.getpid()),
            "-r",
            "100",
            "-f",
            "raw",
            "-o",
            out,
        ]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Sampling" in line:
                return
        raise RuntimeError(
            "py-spy did not start; it needs the right to trace this process"
        )

    def off(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()


TOOLS: dict[str, tuple[str, Any]] = {
    "cutaway": ("Cutaway, everything", lambda: Cutaway(call_sites=True)),
    "no-call-sites": ("Cutaway, no call sites", lambda: Cutaway(call_sites=False)),
    "hooks": ("Cutaway, operations only", CutawayHooks),
    "memory": ("Cutaway, what --memory adds", CutawayMemory),
    "cprofile": ("cProfile", CProfile),
    "viztracer": ("VizTracer", Viztracer),
    "torch": ("torch.profiler", TorchProfiler),
    "pyinstrument": ("pyinstrument", Pyinstrument),
    "py-spy": ("py-spy 100 Hz", PySpy),
}
