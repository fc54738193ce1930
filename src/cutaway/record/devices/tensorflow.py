"""TensorFlow's own profiler, which is a client of CUPTI like ours: it gets the place while the program uses it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from cutaway.record.devices import library

MODULE = "tensorflow.python.profiler.profiler_v2"
NOTE = (
    "the program used TensorFlow's own profiler: kernels of that time are in its log folder only; "
    "`cutaway import` reads the .xplane.pb there"
)

_restore: list[tuple[ModuleType, Any, Any]] = []


def watch_program(profiler: ModuleType, make_way: Callable[[], None], take_back: Callable[[], None]) -> None:
    """Around `start` and `stop`, through which every use of tf.profiler goes; tf.profiler.experimental takes its names from
    this module right after it has been imported."""
    start, stop = profiler.start, profiler.stop

    def start_and_tell(*arguments: Any, **options: Any) -> Any:
        make_way()
        library.log({"k": "note", "text": NOTE})
        return start(*arguments, **options)

    def stop_and_return(*arguments: Any, **options: Any) -> Any:
        try:
            return stop(*arguments, **options)
        finally:
            take_back()

    profiler.start, profiler.stop = start_and_tell, stop_and_return  # type: ignore[attr-defined]
    _restore.append((profiler, start, stop))


def stop_watching() -> None:
    """Put the profiler back as it was."""
    while _restore:
        profiler, start, stop = _restore.pop()
        profiler.start, profiler.stop = start, stop  # type: ignore[attr-defined]
