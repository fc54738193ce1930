"""Accelerators: which collector records them, when it starts, and one sentence if it cannot.

Nothing here initialises a device or imports a framework. CUPTI is started by libcuda itself when the program first uses
CUDA (`CUDA_INJECTION64_PATH`), the OpenCL layer by the OpenCL loader (`OPENCL_LAYERS`), the other routes when the
framework has been imported.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record.devices import cupti, library
from cutaway.record.imports import when_imported
from cutaway.record.options import Options

_environment: dict[str, str | None] = {}  # what the variables were that we have set


def environment(kind: str, present: dict[str, str]) -> dict[str, str]:
    """The variables that have a program recorded, in any language; `present` are those it has."""
    variables: dict[str, str] = {}
    ours = library.path()
    if ours is None:
        return variables
    if kind in ("auto", "opencl"):
        # Behind the layers that are there already: the last one is nearest to the program.
        others = [
            layer
            for layer in present.get("OPENCL_LAYERS", "").split(":")
            if layer and layer != ours
        ]
        variables["OPENCL_LAYERS"] = ":".join([*others, ours])
    if kind == "cupti" or (kind == "auto" and cupti.driver_present()):
        variables |= cupti.environment(present)
    return variables


def install(options: Options) -> None:
    """Arrange for device work to be recorded. What cannot be recorded is said in the run's notes, never raised."""
    kind = options.collector
    if library.path() is None:
        _recorder.note(
            "device work is not recorded: libcutaway_devices.so is missing; install cutaway again"
        )
        return
    if (
        loaded := library.in_use()
    ):  # it was loaded before the recorder, so connect the two now
        loaded.cutaway_devices_attach()
    if cupti.driver_present() or any(
        "rapl" in n and ":" in n for n in _names("/sys/class/powercap")
    ):
        from cutaway.record import meters

        meters.start(options.folder)
    _set_environment(environment(kind, dict(os.environ)))
    maps = library.mapped()
    if (
        kind in ("auto", "opencl")
        and "libOpenCL" in maps
        and "libcutaway_devices.so" not in maps
    ):
        _recorder.note(
            "OpenCL was in use before the recording began and is not recorded; use `cutaway run`"
        )
    if kind in ("auto", "cupti"):
        cupti.start(
            demanded=kind == "cupti", fall_back=partial(_use_kineto, options.shapes)
        )
        for name, hand_over in cupti.PROFILERS.items():
            when_imported(name, hand_over)
    if options.counters_s:
        from cutaway.record.devices import counters

        counters.start(options.folder, options.counters_s)
    # There is no collector of our own for AMD and Intel; for TPUs, jax.profiler is the only source.
    intel = any(name.startswith("0000:") for name in _names("/sys/bus/pci/drivers/xe"))
    tpu = any(name[:5] == "accel" and name[5:6].isdigit() for name in _names("/dev"))
    if kind == "kineto" or (kind == "auto" and (intel or os.path.exists("/dev/kfd"))):
        _use_kineto(options.shapes)
    if kind == "jax" or (kind == "auto" and tpu):
        when_imported("jax", partial(_with_route, "jax", "start"))
    if kind in ("auto", "cupti", "kineto"):  # the program may use torch.profiler itself
        when_imported(
            "torch.autograd.profiler", partial(_with_route, "kineto", "watch_program")
        )


def remove() -> None:
    """Write what is still on its way and leave the program as it was."""
    for name, value in _environment.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
    _environment.clear()
    for part in ("meters", "devices.counters", "devices.kineto", "devices.windows"):
        if module := sys.modules.get(f"cutaway.record.{part}"):
            module.stop()
    cupti.stop()
    if loaded := library.in_use():
        loaded.cutaway_devices_close()  # the next recording begins a file of its own


def _with_route(route: str, function: str, module: ModuleType) -> None:
    getattr(importlib.import_module(f"{__name__}.{route}"), function)(module)


def _use_kineto(shapes: bool, reason: str = "") -> None:
    """Take what torch.profiler sees, because CUPTI belongs to another profiler."""
    from cutaway.record.devices import kineto

    if reason:
        _recorder.note(reason)
    if (
        kineto.LOG_LEVEL not in os.environ
    ):  # Kineto writes a line to stderr for each window
        _set_environment({kineto.LOG_LEVEL: "99"})
    kineto.start(shapes)


def _names(folder: str) -> list[str]:
    """What a folder holds; nothing if it is missing. Without pathlib: importing it would slow every start."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _set_environment(variables: dict[str, str]) -> None:
    for name, value in variables.items():
        _environment.setdefault(name, os.environ.get(name))
        os.environ[name] = value
