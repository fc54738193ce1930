"""Accelerators: which collector looks at them, when it starts, and one sentence when it cannot.

Nothing here initialises a device or imports a framework. CUPTI is started by libcuda itself when the program first uses
CUDA (`CUDA_INJECTION64_PATH`), the OpenCL layer by the OpenCL loader (`OPENCL_LAYERS`), the other routes when the
framework has been imported.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import partial
from types import ModuleType

from cutaway.record.devices import cupti, library
from cutaway.record.devices.hand_over import PROFILERS
from cutaway.record.imports import when_imported
from cutaway.record.options import Options

CHOICES = ("auto", "none", "cupti", "opencl", "kineto", "jax")

_undo: list[Callable[[], None]] = []


def environment(kind: str, present: dict[str, str]) -> dict[str, str]:
    """The variables that make a program traced, whatever it is written in; `present` are those it has."""
    variables: dict[str, str] = {}
    ours = library.path()
    if ours is None:
        return variables
    if kind in (
        "auto",
        "opencl",
    ):  # behind the layers that are there already: the last one is nearest to the program
        others = [layer for layer in present.get("OPENCL_LAYERS", "").split(":") if layer and layer != ours]
        variables["OPENCL_LAYERS"] = ":".join([*others, ours])
    if kind == "cupti" or (kind == "auto" and cupti.driver_present()):
        variables |= cupti.environment(present)
    return variables


def install(options: Options) -> None:
    """Arrange for device work to be recorded. What cannot be is said in the run's notes, never raised."""
    from cutaway import _recorder

    kind = options.device
    if kind not in CHOICES:
        _recorder.note(f"--device {kind} is unknown; use one of {', '.join(CHOICES)}")
        return
    if library.path() is None:
        _recorder.note("device work is not recorded: libcutaway_devices.so is missing; install cutaway again")
        return
    library.attach()
    if cupti.driver_present() or any("rapl" in n and ":" in n for n in _names("/sys/class/powercap")):
        from cutaway.record import meters

        _undo.append(meters.stop)
        meters.start(options.folder)
    _set_environment(environment(kind, dict(os.environ)))
    maps = library.mapped()
    if kind in ("auto", "opencl") and "libOpenCL" in maps and "libcutaway_devices.so" not in maps:
        _recorder.note("OpenCL was in use before the recording began and is not recorded; use `cutaway run`")

    def use_kineto(reason: str = "") -> None:
        """Take what torch.profiler sees; the reason is that CUPTI belongs to another profiler."""
        from cutaway.record.devices import kineto

        if reason:
            _recorder.note(reason)
        if kineto.LOG_LEVEL not in os.environ:  # Kineto writes a line to stderr for each window
            _set_environment({kineto.LOG_LEVEL: "99"})
        kineto.start(options.shapes)

    if kind in ("auto", "cupti"):
        cupti.start(demanded=kind == "cupti", fall_back=use_kineto)
    if kind == "kineto" or (kind == "auto" and _has_other_gpu()):
        use_kineto()
    if kind == "jax" or (kind == "auto" and _has_tpu()):
        when_imported("jax", _start_jax)
    if kind in ("auto", "cupti", "kineto"):
        when_imported("torch.autograd.profiler", _follow_torch)
    for name, place in PROFILERS.items() if kind in ("auto", "cupti") else ():
        when_imported(name, partial(place.watch, make_way=cupti.pause, take_back=cupti.resume))


def remove() -> None:
    """Write what is still on its way and leave the program as it was."""
    while _undo:
        _undo.pop()()
    for route in ("kineto", "windows"):
        if module := sys.modules.get(f"{__name__}.{route}"):
            module.stop()
    cupti.stop()
    library.close()


def _follow_torch(profiler: ModuleType) -> None:
    """The program may use torch.profiler itself."""
    from cutaway.record.devices import kineto

    kineto.watch_program(profiler, cupti.pause, cupti.resume)


def _start_jax(module: ModuleType) -> None:
    from cutaway.record.devices import jax

    jax.start(module)


def _has_other_gpu() -> bool:
    """AMD and Intel, for which there is no collector of our own."""
    intel = _names("/sys/bus/pci/drivers/xe")
    return os.path.exists("/dev/kfd") or any(name.startswith("0000:") for name in intel)


def _has_tpu() -> bool:
    """TPUs, for which jax.profiler is the only source."""
    return any(name[5:6].isdigit() for name in _names("/dev") if name.startswith("accel"))


def _names(folder: str) -> list[str]:
    """What a folder holds; nothing if it is not there. Not by pathlib: importing it is felt at every start."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _set_environment(variables: dict[str, str]) -> None:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)

    def restore() -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    _undo.append(restore)
