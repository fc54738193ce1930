"""Kineto's samples of hardware counters (CUPTI PM sampling; PyTorch of August 2026 and later, off unless it was built with it).

Read in Kineto's source (`output_json.cpp`), never seen in a file: an event of phase `C` for each counter and moment, category
`hardware_counters`, process `GPU N Counters`, named as the counter, its value under an empty name.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np
from numpy.typing import NDArray

from cutaway.trace.imports.columns import MISSING, Clock, Columns, Mapping
from cutaway.trace.imports.counters import Sampled

CATEGORY = "hardware_counters"
VALUE: Mapping = {"value": "args/"}
SCALE = 1000  # of values, which are read as times are
_GPU = re.compile(r"GPU (\d{1,4}) Counters")


def samples(
    events: Columns, texts: list[str], counted: NDArray[np.bool_], clock: Clock
) -> list[Sampled]:
    """The values of a device at each moment; `counted` are the rows of counter events."""
    wanted = np.array([text.lower() == CATEGORY for text in texts], bool)
    chosen = counted & wanted[events["cat"]] & (events["value"] != MISSING)
    names = ("start", "pid", "name", "value")
    rows = {name: events[name][chosen] for name in names}
    placed = clock.place(rows | {"end": rows["start"]})
    moments: defaultdict[tuple[int, int], dict[str, float]] = defaultdict(dict)
    columns = (placed[name].tolist() for name in names)
    for t, place, name, value in zip(*columns, strict=True):
        gpu = _GPU.fullmatch(texts[place])
        moments[t, int(gpu[1]) if gpu else 0][texts[name]] = value / SCALE
    return [
        Sampled(t, values, gpu)
        for (t, gpu), values in sorted(moments.items(), key=_moment)
    ]


def _moment(item: tuple[tuple[int, int], dict[str, float]]) -> tuple[int, int]:
    return item[0]
