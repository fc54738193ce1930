"""libcutaway_devices.so, the one writer of device.bin, for the routes written in Python."""

from __future__ import annotations

import os
import struct
from functools import cache

import cutaway
from cutaway import _recorder
from cutaway.vocabulary import packing

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    import ctypes

    from cutaway.record.devices.events import Api, Work

_API, _DEVICE = (
    struct.Struct(packing(structure)) for structure in ("ApiRecord", "DeviceRecord")
)


def path() -> str | None:
    """Path of the library; None in an installation without it."""
    for folder in (*cutaway.__path__, os.path.dirname(str(_recorder.__file__))):
        found = f"{folder}/libcutaway_devices.so"
        if os.path.isfile(found):
            return found
    return None


def mapped() -> str:
    """The libraries in this process, as the kernel lists them."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


@cache
def load() -> ctypes.CDLL | None:
    """The library, loaded once; None where it is missing or broken."""
    import ctypes

    try:
        if found := path():
            loaded = ctypes.CDLL(found)
        else:
            loaded = None
    except OSError:
        return None
    if loaded is not None:
        loaded.cutaway_devices_attach()
        loaded.cutaway_devices_name.restype = ctypes.c_uint32
        loaded.cutaway_devices_api.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint8,
        ]
        loaded.cutaway_devices_work.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_uint8,
        ]
    return loaded


def in_use() -> ctypes.CDLL | None:
    """The library, if we, libcuda or an OpenCL loader have loaded it into this process; loads nothing itself."""
    if load.cache_info().currsize or "libcutaway_devices.so" in mapped():
        return load()
    return None


def write(calls: list[Api], work: list[Work], clock: int) -> None:
    """Append to device.bin; times are nanoseconds of `clock`."""
    if loaded := load():
        packed_calls = b"".join(pack_call(loaded, call) for call in calls)
        packed_work = b"".join(_pack_work(loaded, item) for item in work)
        loaded.cutaway_devices_api(packed_calls, len(calls), clock)
        loaded.cutaway_devices_work(packed_work, len(work), clock)


def pack_call(loaded: ctypes.CDLL, call: Api) -> bytes:
    """One record of an API call."""
    name = loaded.cutaway_devices_name(call.name.encode())
    times = (_u64(call.start), _u64(call.end), _u64(call.correlation))
    return _API.pack(*times, _u32(call.os_thread), name, 0, call.synchronises)


def _pack_work(loaded: ctypes.CDLL, item: Work) -> bytes:
    name = loaded.cutaway_devices_name(item.name.encode())
    times = (_u64(item.start), _u64(item.end), _u64(item.correlation), _u64(item.size))
    place = (name, _u32(item.device), _u32(item.stream), _u32(item.graph))
    shape = (
        *map(_u32, item.grid),
        *map(_u32, item.block),
        _u32(item.registers),
        _u32(item.shared),
        0,
    )
    return _DEVICE.pack(*times, *place, 0, *shape, item.kind, 0, 0, 0)


def _u64(value: int) -> int:
    return min(max(int(value), 0), 2**64 - 1)


def _u32(value: int) -> int:
    return int(value) & 0xFFFFFFFF
