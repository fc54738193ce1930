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
    def on(self) -> None: ...
    def off(self) -> None: ...


class Cutaway:
    """Real start and stop: every patched pointer and every covered method is put back in between."""

    def __init__(self, **options: Any) -> None:
        self.folder = tempfile.mkdtemp(prefix="overhead-", suffix=".cutaway")
        self.options = options

    def on(self) -> None:
        from cutaway.record import session
        from cutaway.record.options import Options

        assert session.start(Options(self.folder, device="none", **self.options))

    def off(self) -> None:
        from cutaway.record import session

        session.stop()
        for path in Path(self.folder).glob("p*-*"):
            shutil.rmtree(path)


class CProfile:
    def __init__(self) -> None:
        import cProfile

        self.profile = cProfile.Profile()

    def on(self) -> None:
        self.profile.enable()

    def off(self) -> None:
        self.profile.disable()


class Viztracer:
    def on(self) -> None:
        from viztracer import VizTracer

        self.tracer = VizTracer(tracer_entries=2_000_000, verbose=0)
        self.tracer.start()

    def off(self) -> None:
        self.tracer.stop()
        self.tracer.clear()


class TorchProfiler:
    def on(self) -> None:
        import torch.profiler as tp

        self.profile = tp.profile(activities=[tp.ProfilerActivity.CPU])
        self.profile.start()

    def off(self) -> None:
        self.profile.stop()


class Pyinstrument:
    def on(self) -> None:
        from pyinstrument import Profiler

        self.profiler = Profiler()
        self.profiler.start()

    def off(self) -> None:
        self.profiler.stop()


class PySpy:
    """Reads our memory from another process, 100 times a second; it stops us while it does."""

    def on(self) -> None:
        out = str(Path(tempfile.gettempdir()) / f"py-spy-{os.getpid()}.txt")
        program = shutil.which("py-spy") or str(Path(sys.executable).with_name("py-spy"))
        command = [program, "record", "-p", str(os.getpid()), "-r", "100", "-f", "raw", "-o", out]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if "Sampling" in line:
                return
        raise RuntimeError("py-spy did not start; it needs the right to trace this process")

    def off(self) -> None:
        self.process.send_signal(signal.SIGINT)
        self.process.communicate()


TOOLS: dict[str, tuple[str, Any]] = {
    "cutaway": ("Cutaway, everything", lambda: Cutaway(call_sites=True)),
    "no-call-sites": ("Cutaway, no call sites", lambda: Cutaway(call_sites=False)),
    "operations": ("Cutaway, operations only", lambda: Cutaway(layers=False)),
    "cprofile": ("cProfile", CProfile),
    "viztracer": ("VizTracer", Viztracer),
    "torch": ("torch.profiler", TorchProfiler),
    "pyinstrument": ("pyinstrument", Pyinstrument),
    "py-spy": ("py-spy 100 Hz", PySpy),
}
