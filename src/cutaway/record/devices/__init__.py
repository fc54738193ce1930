"""Accelerators: which collector looks at them, when it starts, and one sentence when it cannot.

Nothing here initialises a device or imports a framework. CUPTI is started by libcuda itself when the program first uses
CUDA (`CUDA_INJECTION64_PATH`), the OpenCL layer by the OpenCL loader (`OPENCL_LAYERS`), the other routes when the
framework has been imported.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cutaway.record.devices import cupti, jax, kineto, library, opencl
from cutaway.record.options import Options

CHOICES = ("auto", "none", "cupti", "opencl", "kineto", "jax")

_undo: list[Callable[[], None]] = []


def environment(kind: str, present: dict[str, str]) -> dict[str, str]:
    """The variables that make a program traced, whatever it is written in; `present` are those it has."""
    variables: dict[str, str] = {}
    if library.path() is None or kind not in CHOICES:
        return variables
    if kind in ("auto", "opencl"):
        variables |= opencl.environment(present)
    if kind == "cupti" or (kind == "auto" and cupti.driver_present()):
        variables |= cupti.environment(present)
    return variables


def start(options: Options) -> None:
    """Arrange for device work to be recorded. What cannot be is said in the run's notes, never raised."""
    from cutaway import _recorder

    kind = options.device
    if kind not in CHOICES:
        _recorder.note(f"--device {kind} is not known; write one of {', '.join(CHOICES)}")
        return
    if kind == "none":
        return
    if library.path() is None:
        _recorder.note("device work is not recorded: libcutaway_devices.so is missing; install cutaway again")
        return
    library.attach()
    _start_meters(options)
    _set_environment(environment(kind, dict(os.environ)))
    if kind in ("auto", "opencl") and opencl.came_too_late():
        _recorder.note("OpenCL was in use before the recording began and is not recorded; use `cutaway run`")
    if kind in ("auto", "cupti"):
        cupti.start(demanded=kind == "cupti", fall_back=_fall_back)
    if kind == "kineto" or (kind == "auto" and kineto.suits_this_machine()):
        _start_kineto()
    if kind == "jax" or (kind == "auto" and jax.suits_this_machine()):
        _undo.append(jax.stop)
        jax.start()
    if kind in ("auto", "cupti", "kineto"):
        _undo.append(kineto.stop_watching)
        kineto.watch_program(cupti.pause, cupti.resume)


def stop() -> None:
    """Write what is still on its way and leave the program as it was."""
    while _undo:
        _undo.pop()()
    cupti.stop()
    library.close()


def flush() -> None:
    """Ask for everything the device has finished, for instance at the end of a phase."""
    cupti.flush()


def _fall_back(reason: str) -> None:
    """CUPTI belongs to another profiler: take what torch.profiler sees."""
    from cutaway import _recorder

    _recorder.note(reason)
    _start_kineto()


def _start_kineto() -> None:
    _undo.append(kineto.stop)
    kineto.start()


def _start_meters(options: Options) -> None:
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
