"""How times are spelt in the sentences of `cutaway what-if`."""

from __future__ import annotations

import numpy as np


def ms(seconds: float) -> str:
    """Milliseconds with three digits, and never an exponent.

    >>> ms(25.437), ms(0.00512), ms(0.0000123), ms(0)
    ('25400', '5.12', '0.0123', '0')
    """
    return np.format_float_positional(
        1e3 * seconds, precision=3, unique=False, fractional=False, trim="-"
    )
