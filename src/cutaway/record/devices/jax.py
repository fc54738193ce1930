"""The JAX route: device work from windows of jax.profiler (XPlane), for TPUs and wherever CUPTI cannot be used."""

from __future__ import annotations

import re
import shutil
import tempfile
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
SUMMARIES = (
    "Steps",
    "XLA Modules",
    "XLA TraceMe",
    "Framework Ops",
    "Framework Name Scope",
    "Source code",
)
KINDS = {
    DeviceKind.MEMCPY: ("memcpy", "copy-"),
    DeviceKind.MEMSET: ("memset",),
    DeviceKind.COLLECTIVE: tuple(
        "nccl all-reduce all-gather reduce-scatter all-to-all collective-permute".split()
    ),
}


def start(jax: ModuleType) -> None:
    """Open windows in a program that has imported jax."""

    def begin() -> Path:
        folder = Path(tempfile.mkdtemp(prefix="cutaway-xplane-"))
        jax.profiler.start_trace(str(folder))
        return folder

    def end(folder: Path) -> None:
        jax.profiler.stop_trace()
        try:
            for file in folder.rglob("*.xplane.pb"):
                library.write(
                    *convert(jax.profiler.ProfileData.from_file(str(file))),
                    Clock.REALTIME,
                )
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    windows.Windows("jax.profiler", begin, end)


def convert(profile: Any) -> tuple[list[Api], list[Work]]:
    """The API calls and device work in a `jax.profiler.ProfileData`; times are CLOCK_REALTIME nanoseconds."""
    planes = list(profile.planes)
    origin = next(
        (
            dict(p.stats)["profile_start_time"]
            for p in planes
            if p.name == "Task Environment"
        ),
        0,
    )
    calls: list[Api] = []
    work: list[Work] = []
    for plane in planes:
        if device := DEVICE_PLANE.match(plane.name):
            work += _device_plane(plane, int(device[1]), origin)
        elif plane.name.startswith("/host:"):
            calls += _host_plane(plane, origin)
    return calls, work


def _device_plane(plane: Any, device: int, origin: int) -> Iterator[Work]:
    for number, line in enumerate(plane.lines):
        if line.name.startswith(SUMMARIES):
            continue
        found = STREAM.match(line.name)
        if found and found[1]:
            stream = int(found[1])
        else:
            stream = number
        for name, start, end, correlation in _events(line, origin):
            lower = name.lower()
            kinds = (
                kind for kind, prefixes in KINDS.items() if lower.startswith(prefixes)
            )
            yield Work(
                name,
                next(kinds, DeviceKind.KERNEL),
                start,
                end,
                correlation,
                device,
                stream,
            )


def _host_plane(plane: Any, origin: int) -> Iterator[Api]:
    """Calls of the CUDA or HIP runtime: the host events that carry a correlation id."""
    for line in plane.lines:
        digits = line.name.rpartition("/")[2]
        if digits.isdigit():
            thread = int(digits)
        else:
            thread = 0
        for name, start, end, correlation in _events(line, origin):
            if correlation:
                yield Api(name, start, end, correlation, thread, "Synchronize" in name)


def _events(line: Any, origin: int) -> Iterator[tuple[str, int, int, int]]:
    for event in line.events:
        start = origin + round(event.start_ns)
        correlation = dict(event.stats).get("correlation_id", 0)
        yield event.name, start, start + round(event.duration_ns), correlation
