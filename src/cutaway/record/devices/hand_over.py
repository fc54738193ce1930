"""Profilers of the program's own that need CUPTI, which has room for one client: they get the place from their start to their stop.

PyTorch's is followed in `kineto.py`, where its events are taken as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

from cutaway.record.devices import library
from cutaway.record.frameworks.cover import replace
from cutaway.record.imports import Any


class HandOver:
    """Stands around two functions of a profiler's module. `again` is a module that has names of its own for them."""

    def __init__(self, start: str, stop: str, again: str = "", note: str = "") -> None:
        self.start, self.stop, self.again, self.note = start, stop, again, note

    def watch(
        self, profiler: ModuleType, make_way: Callable[[], None], take_back: Callable[[], None]
    ) -> None:
        """`make_way` before the profiler starts, `take_back` after it has stopped; until `cover.restore`."""
        start, stop = getattr(profiler, self.start), getattr(profiler, self.stop)

        def start_alone(*arguments: Any, **options: Any) -> Any:
            make_way()
            if self.note:
                library.log({"k": "note", "text": self.note})
            return start(*arguments, **options)

        def stop_and_return(*arguments: Any, **options: Any) -> Any:
            try:
                return stop(*arguments, **options)
            finally:
                take_back()

        for module in (profiler, sys.modules.get(self.again)):
            if module is not None:
                replace(module, self.start, start_alone)
                replace(module, self.stop, stop_and_return)


PROFILERS = {
    "jax._src.profiler": HandOver("start_trace", "stop_trace", again="jax.profiler"),
    # tf.profiler.experimental takes its names from this module right after it has been imported.
    "tensorflow.python.profiler.profiler_v2": HandOver(
        "start",
        "stop",
        note="the program used TensorFlow's profiler; kernels of that time are only in its log folder: "
        "read the .xplane.pb there with `cutaway import`",
    ),
}
