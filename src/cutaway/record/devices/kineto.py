"""The Kineto route: device work as torch.profiler sees it, on whatever accelerator PyTorch supports.

Two uses of it. `start` opens windows of our own through the public API. `watch_program` notices that the program itself
uses torch.profiler: then ours (and CUPTI, which has room for one client) makes way, and what the program's profiler saw
is taken from it when it stops.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from cutaway import _recorder
from cutaway.record.devices import cupti, library, windows
from cutaway.record.devices.events import Api, Work, operator_entries
from cutaway.record.frameworks.hooks import replace
from cutaway.record.imports import when_imported
from cutaway.vocabulary import Clock, DeviceKind

# Kineto's activity types, distinguished by name alone; the importer of its files has the same table.
WORK = {
    "kernel": DeviceKind.KERNEL,
    "gpu_memcpy": DeviceKind.MEMCPY,
    "gpu_memset": DeviceKind.MEMSET,
}
CALLS = "cuda_runtime cuda_driver xpu_runtime xpu_driver privateuse1_runtime privateuse1_driver".split()

DETAILS = {
    "size": "bytes",
    "graph": "graph id",
    "registers": "registers per thread",
    "shared": "shared memory",
}
LOG_LEVEL = "KINETO_LOG_LEVEL"
WINDOWS = "torch.profiler"

_takers: list[threading.Thread] = []


def start(with_shapes: bool = False) -> None:
    """Open windows once the program has imported torch; `with_shapes` takes the input shapes of operators as well."""
    when_imported("torch", partial(_open_windows, with_shapes))


def stop() -> None:
    """Finish what was taken from the program's own profiler."""
    while _takers:
        _takers.pop().join()


def watch_program(profiler: Any) -> None:
    """Wrap the two methods that every use of torch.profiler goes through: CUPTI is released before it starts; afterwards
    we take it back, and the events with it."""
    profile = profiler.profile
    prepare = profile._prepare_trace
    leave = profile.__exit__

    def prepare_trace(self: Any) -> Any:
        ours = windows.opened.get(WINDOWS)
        if ours is not None and ours.is_ours():
            return prepare(self)
        _shielded(cupti.pause)
        self._cutaway_turn = ours
        if ours is not None:
            ours.give_way()
        return prepare(self)

    def exit(self: Any, *exception: Any) -> Any:
        result = leave(self, *exception)
        if "_cutaway_turn" in vars(self):
            turn = vars(self).pop("_cutaway_turn")
            if turn is not None:
                turn.take_turn()
            _shielded(cupti.resume)
            # Reading a long profile takes a while; the program does not wait for it.
            write = (partial(_write, getattr(self, "kineto_results", None)),)
            _takers.append(
                threading.Thread(
                    target=_shielded, args=write, name="cutaway-kineto", daemon=True
                )
            )
            _takers[-1].start()
        return result

    replace(profile, "_prepare_trace", prepare_trace)
    replace(profile, "__exit__", exit)


def _shielded(action: Callable[[], None]) -> None:
    """Errors of ours must not reach the program."""
    try:
        action()
    except Exception as error:
        _recorder.note(
            f"the events of torch.profiler could not be read: {type(error).__name__}: {error}"
        )


def _open_windows(with_shapes: bool, torch: Any) -> None:
    """Through PyTorch's internal profiler, because torch.profiler would import the compiler, which takes seconds."""

    def begin() -> Any:
        device = _device(torch)
        if device == "":
            return None
        options: dict[str, Any] = {"use_cpu": device is None}
        if with_shapes:  # they need the operators of the program's threads, which is more work for it
            everywhere = torch._C._profiler._ExperimentalConfig(
                profile_all_threads=True
            )
            options = {"record_shapes": True, "experimental_config": everywhere}
        return torch.autograd.profiler.profile(
            use_kineto=True, use_device=device, **options
        ).__enter__()

    def end(capture: Any) -> None:
        capture.__exit__(None, None, None)
        _write(capture.kineto_results)

    windows.Windows(WINDOWS, begin, end)


def _device(torch: Any) -> str | None:
    """The kind of device to look at: None where PyTorch supports none but plug-ins may, "" while the program has not used it
    yet. Using it first would change the program: CUDA does not survive a fork."""
    supported = {activity.name for activity in torch.profiler.supported_activities()}
    for kind in ("cuda", "xpu"):
        if kind.upper() in supported:
            if getattr(torch, kind).is_initialized():
                return kind
            return ""
    return None


def _write(results: Any) -> None:
    calls, work = take(results)
    library.write(calls, work, Clock.REALTIME)
    for operator in shapes(results.events(), work) if work else []:
        _recorder.log("operator", json.dumps(operator))


def take(results: Any) -> tuple[list[Api], list[Work]]:
    """The API calls and device work in `profiler.kineto_results`; times are CLOCK_REALTIME nanoseconds.

    Everything else (operators, annotations) we record ourselves.
    """
    calls: list[Api] = []
    work: list[Work] = []
    for event in results.events() if results is not None else ():
        kind = activity(event)
        name = event.name()
        times = (event.start_ns(), event.end_ns(), event.correlation_id())
        if kind in WORK:
            if name.startswith("nccl"):
                device_kind = DeviceKind.COLLECTIVE
            else:
                device_kind = WORK[kind]
            place = (event.device_index(), event.device_resource_id())
            work.append(Work(name, device_kind, *times, *place, **_details(event)))
        elif kind in CALLS:
            waits = "Synchronize" in name or ("Memcpy" in name and "Async" not in name)
            calls.append(Api(name, *times, event.device_resource_id(), waits))
    return calls, work


def _details(event: Any) -> dict[str, Any]:
    """What else Kineto knows of a piece of work; older versions do not offer it inside the process."""
    if hasattr(event, "metadata_json"):
        text = event.metadata_json()
    else:
        text = ""
    try:
        told = json.loads(text if text.lstrip().startswith("{") else "{" + text + "}")
    except ValueError:
        return {}
    found: dict[str, Any] = {}
    for field, key in DETAILS.items():
        if isinstance(value := told.get(key), (int, float)) and value >= 0:
            found[field] = int(value)
    for field in ("grid", "block"):
        value = told.get(field)
        if (
            isinstance(value, list)
            and len(value) == 3
            and all(isinstance(v, int) for v in value)
        ):
            found[field] = tuple(value)
    return found


def activity(event: Any) -> str:
    """Kineto's word for what an event is. Older PyTorch (2.6) does not offer it: then by the event's device and name."""
    if hasattr(event, "activity_type"):
        return str(event.activity_type()).lower()
    name = event.name()
    if event.is_user_annotation():
        return "user_annotation"
    if event.device_type().name == "CPU":
        if re.fullmatch(r"(?:cuda|cu|hip)[A-Z]\w+", name):
            return "cuda_runtime"
        return "cpu_op"
    return {"Memcpy": "gpu_memcpy", "Memset": "gpu_memset"}.get(name[:6], "kernel")


def shapes(events: Iterable[Any], work: Iterable[Work]) -> list[dict[str, Any]]:
    """Log entries of kind "operator": operators whose input shapes are known, with the launches they made. A launch belongs
    to the innermost operator its thread was in."""
    launched = {item.correlation for item in work}
    by_thread: dict[int, list[tuple[int, int, Any]]] = {}
    for event in events:
        kind = activity(event)
        if kind == "cpu_op" or (kind in CALLS and event.correlation_id() in launched):
            if kind == "cpu_op":
                ends = event.end_ns()
            else:
                ends = -1
            row = (event.start_ns(), -ends, event)
            by_thread.setdefault(event.device_resource_id(), []).append(row)
    calls: dict[int, tuple[Any, list[int]]] = {}
    for rows in by_thread.values():
        open_operators: list[tuple[int, Any]] = []
        for start, end, event in sorted(rows, key=lambda row: row[:2]):
            while open_operators and open_operators[-1][0] < start:
                open_operators.pop()
            if end <= 0:
                open_operators.append((-end, event))
            elif open_operators and any(open_operators[-1][1].shapes()):
                inner = open_operators[-1][1]
                calls.setdefault(id(inner), (inner, []))[1].append(
                    event.correlation_id()
                )
    return operator_entries(
        (_operator(event), correlations) for event, correlations in calls.values()
    )


def _operator(event: Any) -> tuple[str, Any, Any, Any]:
    if hasattr(event, "concrete_inputs"):
        told = event.concrete_inputs()
    else:
        told = []
    concrete = ["" if value is None else str(value) for value in told]
    return event.name(), event.shapes(), event.dtypes(), concrete
