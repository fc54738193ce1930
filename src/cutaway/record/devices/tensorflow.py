"""TensorFlow's own profiler, which is a client of CUPTI like ours: it gets the place while the program uses it."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from cutaway.record.devices import library
from cutaway.record.devices.hand_over import HandOver

MODULE = "tensorflow.python.profiler.profiler_v2"
NOTE = (
    "the program used TensorFlow's own profiler: kernels of that time are in its log folder only; "
    "`cutaway import` reads the .xplane.pb there"
)

_place = HandOver("start", "stop")
stop_watching = _place.undo


def watch_program(profiler: ModuleType, make_way: Callable[[], None], take_back: Callable[[], None]) -> None:
    """Around `start` and `stop`, through which every use of tf.profiler goes; tf.profiler.experimental takes its names from
    this module right after it has been imported."""

    def make_way_and_tell() -> None:
        make_way()
        library.log({"k": "note", "text": NOTE})

    _place.watch([profiler], make_way_and_tell, take_back)
