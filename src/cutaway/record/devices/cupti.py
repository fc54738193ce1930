"""NVIDIA GPUs through CUPTI: started by libcuda when the program first uses CUDA, or here if it already does.

CUPTI has room for one client. Profilers of the program's own that need it get the place from their start to their stop: those of
`PROFILERS`, and PyTorch's, which is followed in `kineto.py`, where its events are taken as well.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record.devices import library
from cutaway.record.frameworks.hooks import replace
from cutaway.record.imports import Any
from cutaway.record.own_thread import OwnThread

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from pathlib import Path

INJECTION = "CUDA_INJECTION64_PATH"
CUPTI = "CUTAWAY_CUPTI"
OTHER_CLIENT = 39  # CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
_INSTEAD = "kernels come from torch.profiler instead"
_NOT_STARTED = -1
_WATCH_SECONDS = 0.25

_stopping = threading.Event()
_watcher: threading.Thread | None = None
_paused = False


def _note(sentence: str) -> None:
    """Imported late: a free-threaded Python has no recorder."""
    _recorder.note(sentence)


_fall_back: Callable[[str], None] = _note


def driver_present() -> bool:
    """Whether there is an NVIDIA driver; does not load it."""
    return any(
        os.path.exists(p)
        for p in ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")
    )


def environment(present: dict[str, str]) -> dict[str, str]:
    """What makes libcuda load our collector; another tool's injection is left alone."""
    ours = str(library.path())
    if present.get(INJECTION, ours) != ours:
        return {}
    if CUPTI in present:
        wheel = None
    else:
        wheel = wheel_library()
    return {INJECTION: ours} | ({CUPTI: str(wheel)} if wheel else {})


def wheel_library() -> Path | None:
    """libcupti of the nvidia-cuda-cupti wheel, the one that PyTorch loads, newest first."""
    import importlib.util
    from pathlib import Path

    def major(path: Path) -> int:
        digits = path.name.rpartition(".")[2]
        if digits.isdigit():
            return int(digits)
        return 0

    try:
        spec = importlib.util.find_spec("nvidia")
    except (ImportError, ValueError):
        return None
    found: list[Path] = []
    for folder in (spec.submodule_search_locations or []) if spec else []:
        for pattern in ("cuda_cupti/lib/libcupti.so.*", "cu*/lib/libcupti.so.*"):
            found += Path(folder).glob(pattern)
    return max(found, key=major, default=None)


def start(demanded: bool, fall_back: Callable[[str], None]) -> None:
    """Start now if this process uses CUDA already; otherwise libcuda will, and we check whether it did."""
    global _watcher, _fall_back
    _fall_back = fall_back
    foreign = os.environ.get(INJECTION, "")
    if foreign and foreign != str(library.path()):
        fall_back(f"another profiler is injected into CUDA ({foreign}); {_INSTEAD}")
    elif demanded or (driver_present() and "libcuda.so" in library.mapped()):
        _begin()
    elif driver_present():
        _stopping.clear()
        _watcher = OwnThread(target=_watch, name="cutaway-cupti", daemon=True)
        _watcher.start()


def _watch() -> None:
    """Wait until libcuda has started the collector; if CUPTI belongs to another profiler, use another way."""
    while not _stopping.wait(_WATCH_SECONDS):
        code = state()
        if code == OTHER_CLIENT:
            _fall_back(
                f"another profiler is using CUPTI in this process (CUPTI error 39); {_INSTEAD}"
            )
        if code != _NOT_STARTED:
            return


def _begin(taken: str = "") -> None:
    """Start, or say why not. If CUPTI belongs to another client, the fall-back takes over."""
    code, sentence = begin()
    if code == OTHER_CLIENT:
        _fall_back(taken or sentence)
    elif code:
        _recorder.note(sentence)


def begin(path: str | None = None) -> tuple[int, str]:
    """Start the collector in this process: (0, "") or an error and one sentence about it."""
    return answer("cutaway_cupti_start", path, 0)


def probe() -> tuple[int, str]:
    """Version of libcupti and where it lies, or a negative error and one sentence; starts nothing."""
    return answer("cutaway_cupti_probe", None)


def answer(function: str, path: str | None, *arguments: Any) -> tuple[int, str]:
    """What a function of the library says: 0 or an error, and a sentence."""
    import ctypes

    loaded = library.load()
    if loaded is None:
        return -3, "libcutaway_devices.so is missing; install cutaway again"
    message = ctypes.create_string_buffer(1024)
    encoded = path.encode() if path else None
    code = loaded[function](encoded, *arguments, message, ctypes.c_size_t(len(message)))
    return code, message.value.decode(errors="replace")


def state() -> int:
    """0 while it records, -1 before, else the error of the last attempt."""
    loaded = library.in_use()
    if loaded:
        return int(loaded.cutaway_cupti_state())
    return _NOT_STARTED


def pause() -> None:
    """Leave CUPTI to the program's own profiler."""
    global _paused
    if state() == 0 and (loaded := library.load()):
        loaded.cutaway_cupti_stop()
        _paused = True


def resume() -> None:
    """Take CUPTI back once the program's own profiler has finished. Kineto, once used, stays CUPTI's client until the process
    ends: then the rest is seen through it."""
    global _paused
    if _paused:
        _paused = False
        _begin(
            "the program's own profiler did not release CUPTI (CUPTI error 39); "
            "from here on, kernels come from torch.profiler, in windows"
        )


def stop() -> None:
    """Flush, switch off and leave CUPTI."""
    global _watcher
    _stopping.set()
    if _watcher is not None:
        _watcher.join()
        _watcher = None
    if loaded := library.in_use():
        loaded.cutaway_cupti_stop()


def hand_over(
    profiler: ModuleType,
    make_way: Callable[[], None] = pause,
    take_back: Callable[[], None] = resume,
    *,
    names: tuple[str, str],
    again: str = "",
    note: str = "",
) -> None:
    """Wrap the two functions that start and stop a profiler, until `hooks.restore`. `again` is a module that imported
    them by name."""
    start, stop = (getattr(profiler, name) for name in names)

    def start_alone(*arguments: Any, **options: Any) -> Any:
        make_way()
        if note:
            _recorder.note(note)
        return start(*arguments, **options)

    def stop_and_return(*arguments: Any, **options: Any) -> Any:
        try:
            return stop(*arguments, **options)
        finally:
            take_back()

    for module in filter(None, (profiler, sys.modules.get(again))):
        replace(module, names[0], start_alone)
        replace(module, names[1], stop_and_return)


PROFILERS = {
    "jax._src.profiler": partial(
        hand_over, names=("start_trace", "stop_trace"), again="jax.profiler"
    ),
    # tf.profiler.experimental takes its names from this module right after it has been imported.
    "tensorflow.python.profiler.profiler_v2": partial(
        hand_over,
        names=("start", "stop"),
        note="the program used TensorFlow's profiler; kernels of that time are only in its log folder: "
        "read the .xplane.pb there with `cutaway import`",
    ),
}
