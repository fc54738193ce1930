"""What frameworks have on accelerators, while the program runs: read twice a second, less often if reading is slow.

PyTorch's allocator says what is allocated and what it has reserved on each device that CUDA (or ROCm) has been started on. JAX says
which buffers are alive, and its own profile which line made them; on the CPU too. Neither framework is started by a look.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time

from cutaway import _recorder
from cutaway.record.imports import Any, when_imported
from cutaway.record.options import Options
from cutaway.record.own_thread import OwnThread

PERIOD_S = 0.5
SHARE = 0.002  # of the time, at most, is spent looking
MORE = 1.05  # than at the last profile, for another one
SMALL = 1 << 20  # bytes that are not worth a profile
LARGEST = 700_000  # packed bytes of a profile: an entry of the log may have a megabyte

_stopping = threading.Event()
_thread: threading.Thread | None = None
_profiled = 0


def install(options: Options) -> None:
    """Start once a framework that may use a device has been imported."""
    when_imported("jax", lambda jax: _begin())
    when_imported("torch", _begin_torch)


def remove() -> None:
    """Read a last time, and end."""
    global _thread
    if _thread is None:
        return
    atexit.unregister(remove)
    _stopping.set()
    _thread.join()
    _thread = None
    _look(last=True)


def _begin_torch(torch: Any) -> None:
    version = torch.version
    if version.cuda or getattr(version, "hip", None):
        _begin()


def _begin() -> None:
    global _thread, _profiled
    if _thread is None:
        _profiled = 0
        _stopping.clear()
        atexit.register(remove)  # called before a framework imported earlier ends
        _thread = OwnThread(target=_run, name="cutaway-device-memory", daemon=True)
        _thread.start()


def _in_child() -> None:
    """A forked child has no such thread, and no devices."""
    global _thread
    _thread = None


os.register_at_fork(after_in_child=_in_child)


def _run() -> None:
    pause = PERIOD_S
    while not _stopping.wait(pause):
        before = time.thread_time()
        _look()
        pause = max(PERIOD_S, (time.thread_time() - before) / SHARE)


def _look(last: bool = False) -> None:
    """Errors of a framework must not reach the program."""
    if not _recorder.active():
        return
    for look in (_look_at_torch, _look_at_jax):
        try:
            look(last)
        except Exception as error:
            if last:
                _recorder.note(
                    f"memory of devices is not known: {type(error).__name__}: {error}"
                )


def _look_at_torch(last: bool) -> None:
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return
    number = getattr(cuda, "_get_nvml_device_index", int)
    rows = []
    for device in range(cuda.device_count()):
        stats = cuda.memory_stats(device)
        reserved = stats.get("reserved_bytes.all.current", 0)
        if reserved:
            allocated = stats.get("allocated_bytes.all.current", 0)
            rows.append([number(device), allocated, reserved])
    _tell(rows)


def _look_at_jax(last: bool) -> None:
    global _profiled
    jax = sys.modules.get("jax")
    bridge = sys.modules.get("jax._src.xla_bridge")
    if jax is None or bridge is None or not bridge.backends_are_initialized():
        return
    import math

    alive: dict[int, int] = {}
    for array in jax.live_arrays():
        size = math.prod(array.sharding.shard_shape(array.shape)) * array.dtype.itemsize
        for device in array.sharding.addressable_devices:
            if device.platform == "cpu":
                number = -1
            else:
                number = device.local_hardware_id or 0
            alive[number] = alive.get(number, 0) + size
    taken = _taken_by_jax(jax)
    _tell([[n, size, max(size, taken.get(n, 0))] for n, size in alive.items()])
    most = sum(alive.values())
    if most > max(SMALL, MORE * _profiled) or (last and _profiled):
        _profiled = max(_profiled, most)
        _profile(jax)


def _taken_by_jax(jax: Any) -> dict[int, int]:
    """What JAX's allocator has taken from accelerators; on the CPU it does not report that."""
    taken: dict[int, int] = {}
    for device in jax.local_devices():
        stats = device.platform != "cpu" and device.memory_stats()
        if stats:
            number = device.local_hardware_id or 0
            taken[number] = stats.get("pool_bytes") or stats.get("bytes_in_use", 0)
    return taken


def _profile(jax: Any) -> None:
    import binascii
    import json

    data = jax.profiler.device_memory_profile()
    if len(data) <= LARGEST:
        text = binascii.b2a_base64(data, newline=False).decode()
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        _recorder.log("device_profile", json.dumps({"t": now, "data": text}))


def _tell(rows: list[list[int]]) -> None:
    """One log "device_use": device as NVML counts, bytes allocated, bytes taken from it."""
    if rows:
        import json

        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        _recorder.log("device_use", json.dumps({"t": now, "rows": rows}))
