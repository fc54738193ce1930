"""Large containers of the program that have a limit, looked at now and then while memory grows: how many elements they hold, about
how many bytes, and how many they may hold. One that is still filling is not a leak. No value is kept.

The recorder calls `note` on the main thread, ever more rarely (`Sampler::look_at_containers`)."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import deque
from itertools import islice

from cutaway import _recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

LONGEST_S = 0.02
MANY, LARGE = 100, 4_000_000  # elements and bytes that make a container worth telling
LOOKED_AT, NODES = 16, 64  # elements of a container, and objects inside one of them
MOST = 20
LIMITS = frozenset(
    "capacity maxlen max_len max_length maxsize max_size size_limit buffer_size max_buffer_size memory_size "
    "replay_size max_replay_size".split()
)
CONTAINERS = (list, deque, dict, set)


def note() -> None:
    """Log the largest containers."""
    found: dict[int, dict[str, Any]] = {}
    now = time.monotonic_ns()
    end = time.thread_time() + LONGEST_S
    for number, one in enumerate(gc.get_objects()):
        if number % 1024 == 0 and time.thread_time() > end:
            break
        if type(one) is deque and one.maxlen and len(one) >= MANY:
            found[id(one)] = _about(one, one.maxlen, "deque")
        elif _may_hold(one):
            _look_inside(one, found)
    large = [about for about in found.values() if about["bytes"] >= LARGE]
    for about in sorted(large, key=lambda about: -about["bytes"])[:MOST]:
        _recorder.log("container", json.dumps({**about, "t": now}))


def _may_hold(one: Any) -> bool:
    """An object with attributes; types and modules do not hold what training keeps."""
    kind = type(one)
    # Not isinstance: it asks the object for its class, and some answer with a warning.
    if kind in CONTAINERS or issubclass(kind, type) or kind.__module__ == "builtins":
        return False
    return kind.__dictoffset__ != 0


def _look_inside(one: Any, found: dict[int, dict[str, Any]]) -> None:
    attributes = object.__getattribute__(one, "__dict__")
    limits = [v for k, v in attributes.items() if type(v) is int and _limits(k)]
    for name, value in attributes.items():
        if type(value) not in CONTAINERS or len(value) < MANY or id(value) in found:
            continue
        most = min((limit for limit in limits if limit >= len(value)), default=0)
        if most:
            found[id(value)] = _about(value, most, f"{type(one).__name__}.{name}")


def _limits(name: object) -> bool:
    return isinstance(name, str) and name.strip("_") in LIMITS


def _about(container: Any, most: int, name: str) -> dict[str, Any]:
    step = max(1, len(container) // LOOKED_AT)
    some = list(islice(container, 0, None, step))
    if isinstance(container, dict):
        some = [container[key] for key in some]
    each = sum(_bytes_of(one, [NODES]) for one in some) / max(1, len(some))
    return {
        "name": name,
        "n": len(container),
        "most": most,
        "bytes": round(each * len(container)),
    }


def _bytes_of(one: Any, left: list[int]) -> int:
    """About how much memory a value takes, with its contents; arrays and tensors by their size."""
    left[0] -= 1
    kind = type(one)
    if left[0] < 0 or one is None or issubclass(kind, type):
        return 0
    if kind.__module__ == "numpy" and isinstance(getattr(one, "nbytes", None), int):
        return int(one.nbytes) + 112
    if kind.__module__.startswith("torch") and hasattr(kind, "element_size"):
        return int(one.numel() * one.element_size()) + 300
    size = sys.getsizeof(one)
    if kind in (list, tuple, deque, set, frozenset):
        return size + sum(_bytes_of(part, left) for part in islice(one, 1000))
    if kind is dict:
        return size + sum(_bytes_of(part, left) for part in islice(one.values(), 1000))
    if kind.__dictoffset__ and kind.__module__ != "builtins":
        inside = object.__getattribute__(one, "__dict__")
        return size + sum(_bytes_of(part, left) for part in inside.values())
    return size
