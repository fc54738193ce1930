"""Several measurements of the same thing as one, which a disturbed run does not move."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def typical(values: Sequence[float]) -> tuple[float, float]:
    """The median, and its standard error from the median distance to it.

    >>> value, error = typical([100.0, 101.0, 99.0, 10.0])
    >>> value, round(error, 2)
    (99.5, 0.74)
    """
    middle = float(np.median(values))
    spread = 1.4826 * float(np.median(np.abs(np.asarray(values) - middle)))  # a normal's standard deviation
    return middle, spread / len(values) ** 0.5
