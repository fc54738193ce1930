"""Accelerators: which collector looks at them, when it starts, and one sentence when it cannot.

Nothing here initialises a device or imports a framework. CUPTI is started by libcuda itself when the program first uses
CUDA (`CUDA_INJECTION64_PATH`), the OpenCL layer by the OpenCL loader (`OPENCL_LAYERS`), the other routes when the
framework has been imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from types import ModuleType

from cutaway.record.devices import cupti, library
from cutaway.record.devices.hand_over import PROFILERS
from cutaway.record.imports import when_imported
from cutaway.record.options import Options

CHOICES = ("auto", "none", "cupti", "opencl", "kineto", "jax")

_undo: list[Callable[[], None]] = []
_shapes = False


def environment(kind: str, present: dict[str, str]) -> dict[str, str]:
    """The variables that make a program traced, whatever it is written in; `present` are those it has."""
    variables: dict[str, str] = {}
    if library.path() is None or kind not in CHOICES:
        return variables
    if kind in ("auto", "opencl"):
        variables |= opencl_environment(present)
    if kind == "cupti" or (kind == "auto" and cupti.driver_present()):
        variables |= cupti.environment(present)
    return variables


def install(options: Options) -> None:
    """Arrange for device work to be recorded. What cannot be is said in the run's notes, never raised."""
    global _shapes
    from cutaway import _recorder

    kind, _shapes = options.device, options.shapes
    if kind not in CHOICES:
        _recorder.note(f"--device {kind} is unknown; use one of {', '.join(CHOICES)}")
        return
    if kind == "none":
        return
    if library.path() is None:
        _recorder.note("device work is not recorded: libcutaway_devices.so is missing; install cutaway again")
        return
    library.attach()
    _start_meters(options)
    _set_environment(environment(kind, dict(os.environ)))
    if kind in ("auto", "opencl") and _opencl_came_before_us():
        _recorder.note("OpenCL was in use before the recording began and is not recorded; use `cutaway run`")
    if kind in ("auto", "cupti"):
        cupti.start(demanded=kind == "cupti", fall_back=_fall_back)
    if kind == "kineto" or (kind == "auto" and _has_other_gpu()):
        _start_kineto()
    if kind == "jax" or (kind == "auto" and _has_tpu()):
        when_imported("jax", _start_jax)
    if kind in ("auto", "cupti", "kineto"):
        when_imported("torch.autograd.profiler", _follow_torch)
    if kind in ("auto", "cupti"):
        for name in PROFILERS:
            when_imported(name, _follow_profiler)


def remove() -> None:
    """Write what is still on its way and leave the program as it was."""
    while _undo:
        _undo.pop()()
    cupti.stop()
    library.close()


def opencl_environment(present: dict[str, str]) -> dict[str, str]:
    """OPENCL_LAYERS with our layer behind those that are there already (the last one is nearest to the program)."""
    ours = str(library.path())
    others = [layer for layer in present.get("OPENCL_LAYERS", "").split(":") if layer and layer != ours]
    return {"OPENCL_LAYERS": ":".join([*others, ours])}


def _opencl_came_before_us() -> bool:
    """Whether the OpenCL loader has read its settings already, without our layer among them."""
    maps = library.mapped()
    return "libOpenCL" in maps and "libcutaway_devices.so" not in maps


def _fall_back(reason: str) -> None:
    """CUPTI belongs to another profiler: take what torch.profiler sees."""
    from cutaway import _recorder

    _recorder.note(reason)
    _start_kineto()


def _start_kineto() -> None:
    from cutaway.record.devices import kineto, windows

    _undo.append(partial(windows.stop, kineto.WINDOWS))
    kineto.start(_shapes)


def _follow_torch(profiler: ModuleType) -> None:
    """The program may use torch.profiler itself."""
    from cutaway.record.devices import kineto

    _undo.append(kineto.stop_watching)
    kineto.watch_program(profiler, cupti.pause, cupti.resume)


def _follow_profiler(profiler: ModuleType) -> None:
    """The program may use jax.profiler or tf.profiler itself."""
    place = PROFILERS[profiler.__name__]
    _undo.append(place.undo)
    place.watch(profiler, cupti.pause, cupti.resume)


def _start_jax(module: ModuleType) -> None:
    from cutaway.record.devices import jax, windows

    _undo.append(partial(windows.stop, jax.WINDOWS))
    jax.start(module)


def _has_other_gpu() -> bool:
    """AMD and Intel, for which there is no collector of our own."""
    return os.path.exists("/dev/kfd") or any(
        name.startswith("0000:") for name in _names("/sys/bus/pci/drivers/xe")
    )


def _names(folder: str) -> list[str]:
    """What a folder holds; nothing if it is not there. Not by pathlib: importing it is felt at every start."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _has_tpu() -> bool:
    """TPUs, for which jax.profiler is the only source."""
    return any(name[5:6].isdigit() for name in _names("/dev") if name.startswith("accel"))


def _start_meters(options: Options) -> None:
    if not cupti.driver_present() and not any(
        "rapl" in n and ":" in n for n in _names("/sys/class/powercap")
    ):
        return
    from cutaway.record import meters

    _undo.append(meters.stop)
    meters.start(options.folder)


def _set_environment(variables: dict[str, str]) -> None:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    _undo.append(lambda: _restore(before))


def _restore(before: dict[str, str | None]) -> None:
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
