"""The JAX route: device work from windows of jax.profiler (XPlane), for TPUs and wherever CUPTI cannot be used."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from cutaway.record.devices import library, windows
from cutaway.record.devices.events import Api, Work
from cutaway.vocabulary import Clock, DeviceKind

DEVICE_PLANE = re.compile(r"/device:\w+:(\d+)")
STREAM = re.compile(r"(?:Stream #|XLA Ops #?)(\d+)?")
# Lines that repeat on a coarser scale what another line of the same plane says.
SUMMARIES = ("Steps", "XLA Modules", "XLA TraceMe", "Framework Ops", "Framework Name Scope", "Source code")

WINDOWS = "jax.profiler"


def start(jax: ModuleType) -> None:
    """Open windows in a program that has imported jax."""

    def begin() -> Path:
        import tempfile

        folder = Path(tempfile.mkdtemp(prefix="cutaway-xplane-"))
        jax.profiler.start_trace(str(folder))
        return folder

    def end(folder: Path) -> None:
        import shutil

        jax.profiler.stop_trace()
        try:
            for file in folder.rglob("*.xplane.pb"):
                library.write(*convert(jax.profiler.ProfileData.from_file(str(file))), Clock.REALTIME)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    windows.Windows(WINDOWS, begin, end)


def convert(profile: Any) -> tuple[list[Api], list[Work]]:
    """The API calls and device work in a `jax.profiler.ProfileData`; times are CLOCK_REALTIME nanoseconds."""
    planes = list(profile.planes)
    origin = next((_stats(p)["profile_start_time"] for p in planes if p.name == "Task Environment"), 0)
    calls: list[Api] = []
    work: list[Work] = []
    for plane in planes:
        device = DEVICE_PLANE.match(plane.name)
        if device:
            work += _device_plane(plane, int(device[1]), origin)
        elif plane.name.startswith("/host:"):
            calls += _host_plane(plane, origin)
    return calls, work


def _device_plane(plane: Any, device: int, origin: int) -> Iterator[Work]:
    for number, line in enumerate(plane.lines):
        if line.name.startswith(SUMMARIES):
            continue
        found = STREAM.match(line.name)
        stream = int(found[1]) if found and found[1] else number
        for event in line.events:
            start = origin + round(event.start_ns)
            end = start + round(event.duration_ns)
            correlation = _stats(event).get("correlation_id", 0)
            yield Work(event.name, _kind(event.name), start, end, correlation, device, stream)


def _host_plane(plane: Any, origin: int) -> Iterator[Api]:
    """Calls of the CUDA or HIP runtime: the host events that carry a correlation id."""
    for line in plane.lines:
        digits = line.name.rpartition("/")[2]
        thread = int(digits) if digits.isdigit() else 0
        for event in line.events:
            correlation = _stats(event).get("correlation_id", 0)
            if correlation:
                start = origin + round(event.start_ns)
                waits = "Synchronize" in event.name
                yield Api(event.name, start, start + round(event.duration_ns), correlation, thread, waits)


def _kind(name: str) -> int:
    lower = name.lower()
    if lower.startswith(("memcpy", "copy-")):
        return DeviceKind.MEMCPY
    if lower.startswith("memset"):
        return DeviceKind.MEMSET
    collectives = ("nccl", "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "collective-permute")
    return DeviceKind.COLLECTIVE if lower.startswith(collectives) else DeviceKind.KERNEL


def _stats(item: Any) -> dict[str, Any]:
    return dict(item.stats)
