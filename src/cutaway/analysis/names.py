"""What numbers in the files of a run stand for. Each process numbers its own; here they are
numbered once for the run, so that tables of several processes can be put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.table import objects
from cutaway.trace.log import Call, Log
from cutaway.vocabulary import ACCELERATOR_API, API_CALL, THREAD_LAYERS

NO_CALL = 0xFFFFFFFF
"""Of a sample outside all calls."""
_UNLOGGED = 1 << 31  # and above: ids missing from the log


class Names:
    """The names of operations, phases, kernels and API calls.

    >>> one, other = Log(), Log()
    >>> one.names.update({1: "simulation", 2: "inference"})
    >>> other.names.update({1: "inference"})
    >>> names = Names([one, other])
    >>> numbers = names.numbers(np.array([0, 0, 1, 1]), np.array([0, 2, 1, 7]))
    >>> numbers[:3].tolist(), names.texts(numbers).tolist()
    ([0, 2, 2], ['', 'inference', 'inference', 'name 7'])
    """

    def __init__(self, logs: Sequence[Log]) -> None:
        known = {"": 0}
        self._of_process = [_numbered(log.names, known) for log in logs]
        sizes = [len(own) for own in self._of_process]
        self._size = np.array(sizes, np.int64)
        self._begin = np.cumsum(self._size) - self._size
        self._flat = np.concatenate([np.zeros(0, np.uint32), *self._of_process])
        self.known = list(known)

    def numbers(self, process: Any, ids: NDArray[Any]) -> NDArray[np.uint32]:
        """Run-wide numbers of the ids of a process, or of one process for each."""
        ids = ids.astype(np.int64)
        process = np.broadcast_to(process, ids.shape).astype(np.int64)
        logged = ids < self._size[process]
        out = (ids | _UNLOGGED).astype(np.uint32)
        out[logged] = self._flat[(self._begin[process] + ids)[logged]]
        return out

    def of_process(self, process: int) -> NDArray[np.uint32]:
        """The run-wide number of each id that its log may explain."""
        return self._of_process[process]

    def text(self, number: int) -> str:
        """What one run-wide number stands for."""
        if number < len(self.known):
            return self.known[number]
        return f"name {number - _UNLOGGED}"

    def texts(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """What run-wide numbers stand for."""
        distinct, inverse = np.unique(numbers, return_inverse=True)
        texts = objects([self.text(number) for number in distinct.tolist()])
        return np.asarray(texts[inverse])


def _numbered(names: dict[int, str], known: dict[str, int]) -> NDArray[np.uint32]:
    ids = np.arange(1 + max(names, default=0), dtype=np.uint32)
    out: NDArray[np.uint32] = ids | np.uint32(_UNLOGGED)
    out[0] = 0
    for id, text in names.items():
        out[id] = known.setdefault(text, len(known))
    return out


class Made(NamedTuple):
    """A native call, or one of an accelerator's API: the process that made it, and what the log says
    of it."""

    process: int
    call: Call
    is_api: bool


class Calls:
    """The calls that were made in a run, by a number that holds for the run."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self._logs = logs
        self._known: dict[tuple[int, int], int] = {}
        self.made: list[Made] = []

    def numbers(self, process: NDArray[Any], ids: NDArray[Any]) -> NDArray[np.uint32]:
        """Run-wide numbers of the ids of one process for each."""
        key = process.astype(np.int64) << 32 | ids.astype(np.int64)
        distinct, inverse = np.unique(key, return_inverse=True)
        found = [self._number(key >> 32, key & 0xFFFFFFFF) for key in distinct.tolist()]
        return np.asarray(np.array(found, np.uint32)[inverse])

    def _number(self, process: int, id: int) -> int:
        if id == NO_CALL:
            return NO_CALL
        number = self._known.setdefault((process, id), len(self.made))
        if number == len(self.made):
            self.made.append(Made(process, self._call(process, id), id >= API_CALL))
        return number

    def _call(self, process: int, id: int) -> Call:
        log = self._logs[process]
        if id >= API_CALL:
            return Call(layer=ACCELERATOR_API, fn=log.name(id - API_CALL))
        known = log.call(id)
        if known.layer in THREAD_LAYERS:
            return known
        return known._replace(layer="python")
