"""What a thread was doing at every instant, as arrays: boundaries in time and the (operation, layer) behind each.

Works block by block with the open operations and calls carried over, so memory does not grow with the trace; NumPy
does the work, because a page of a million events should not take a minute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cutaway.trace import format as fmt
from cutaway.trace.clocks import SHIFT, ClockMap
from cutaway.trace.format import Kind, Structured
from cutaway.trace.log import Log

Ints = NDArray[np.int64]
LAYER_BITS = 3
NOT_ALIVE = -1


def nanoseconds(times: NDArray[np.uint64], clock: ClockMap) -> Ints:
    """Times of a block as nanoseconds of CLOCK_MONOTONIC, to the precision of a float between two anchors."""
    source, target = np.array(clock.source, np.uint64), np.array(clock.target, np.int64)
    rate = np.array((clock.before, *clock.rate), float) / float(1 << SHIFT)
    at = np.searchsorted(source, times, "right").astype(np.int64)
    base = np.maximum(at - 1, 0)
    away = times.astype(np.int64) - source[base].astype(np.int64)
    return np.asarray(target[base] + (away * rate[at]).astype(np.int64), np.int64)


@dataclass
class ThreadState:
    """The open operations and calls of one thread between two blocks."""

    log: Log
    operations: list[int] = field(default_factory=list)
    calls: list[int] = field(default_factory=list)
    alive: bool = True
    steps: list[tuple[int, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._layers = np.zeros(0, np.int64)

    def layers(self) -> Ints:
        """Layer number by call id; grows with the log."""
        if len(self._layers) <= max(self.log.calls, default=0):
            self._layers = np.zeros(max(self.log.calls, default=0) + 1, np.int64)
            for id, call in self.log.calls.items():
                self._layers[id] = fmt.LAYERS.index(call.layer) if call.layer in fmt.LAYERS else 0
        return self._layers

    def read(self, records: Structured, start: Ints, end: Ints) -> tuple[Ints, Ints]:
        """Boundaries of a block and the state from each on: operation << LAYER_BITS | layer, or NOT_ALIVE."""
        kind, id = fmt.kinds(records), fmt.ids(records).astype(np.int64)
        is_call = kind == Kind.CALL
        source = np.repeat(np.arange(len(records)), 1 + is_call)
        second = np.concatenate([[False], source[1:] == source[:-1]]) if len(source) else np.zeros(0, bool)
        kind, id = kind[source], id[source]
        time = np.where(second, end[source], start[source])
        call_step = np.where(kind == Kind.CALL, np.where(second, -1, 1), 0)
        call_step += (kind == Kind.ENTER).astype(int) - (kind == Kind.EXIT)
        operation_step = (kind == Kind.OP_ENTER).astype(int) - (kind == Kind.OP_EXIT)
        call, self.calls = innermost(call_step, id, self.calls)
        operation, self.operations = innermost(operation_step, id, self.operations)
        layers = self.layers()
        layer = np.where(call > 0, layers[np.minimum(call, len(layers) - 1)] if len(layers) else 0, 0)
        state = operation << LAYER_BITS | layer
        return np.maximum.accumulate(time), np.where(self._life(kind), state, NOT_ALIVE)

    def _life(self, kind: NDArray[np.uint8]) -> NDArray[np.bool_]:
        starts = (kind == Kind.BEGIN) | (kind == Kind.RESUME)
        stops = (kind == Kind.PAUSE) | (kind == Kind.END)
        marks = np.where(starts | stops, np.arange(1, len(kind) + 1), 0)
        last = np.maximum.accumulate(marks) if len(marks) else marks
        alive = np.where(last > 0, starts[np.maximum(last - 1, 0)], self.alive)
        if len(alive):
            self.alive = bool(alive[-1])
        return np.asarray(alive, bool)


def innermost(step: NDArray[np.int64], value: Ints, open: list[int]) -> tuple[Ints, list[int]]:
    """The value on top of a stack after each event, and what is open in the end. 0 is the empty stack.

    >>> innermost(np.array([1, 1, -1, -1]), np.array([5, 6, 6, 5]), [])[0].tolist()
    [5, 6, 5, 0]
    >>> innermost(np.array([1, 1, -1, -1]), np.array([5, 6, 5, 6]), [])[0].tolist()  # closed out of order
    [5, 6, 6, 0]
    """
    before = len(open)
    step = np.concatenate([np.ones(before, np.int64), step])
    value = np.concatenate([np.array(open, np.int64), value])
    depth = np.cumsum(step)
    depth -= np.minimum(np.minimum.accumulate(depth), 0) if len(depth) else 0
    top = np.zeros(len(step), np.int64)
    left = list[int]()
    for level in range(1, int(depth.max(initial=0)) + 1):
        entered = np.maximum.accumulate(np.where((step > 0) & (depth == level), np.arange(len(step)), -1))
        here = depth == level
        top[here] = value[entered[here]]
        if level <= depth[-1]:
            left.append(int(value[entered[-1]]))
    closed = np.flatnonzero(step < 0)
    if len(closed) and (closed[0] == 0 or np.any(top[closed - 1] != value[closed])):
        return _innermost_slowly(step, value, before)
    return top[before:], left


def _innermost_slowly(step: NDArray[np.int64], value: Ints, before: int) -> tuple[Ints, list[int]]:
    """The same for stacks that were not closed in order: an exit closes the topmost open one of its name."""
    stack: list[int] = []
    top = np.zeros(len(step), np.int64)
    for i, (change, item) in enumerate(zip(step.tolist(), value.tolist(), strict=True)):
        if change > 0:
            stack.append(item)
        elif change < 0 and item in stack:
            del stack[len(stack) - 1 - stack[::-1].index(item)]
        top[i] = stack[-1] if stack else 0
    return top[before:], stack
