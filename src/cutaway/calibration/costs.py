"""What recording costs: the result of calibration, which the correction subtracts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Cost:
    """What one event adds, in nanoseconds, and the ends of the 95 % interval."""

    ns: float
    low: float
    high: float


@dataclass(frozen=True)
class Costs:
    """The cost of one event of each kind, inside and outside its own interval. A missing kind costs nothing."""

    inside: Mapping[str, Cost] = field(default_factory=dict)
    outside: Mapping[str, Cost] = field(default_factory=dict)
