"""How `cutaway what-if` spells times."""

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


def lasting(seconds: float) -> str:
    """How long an iteration is, in words.

    >>> lasting(0.0142), lasting(2.8)
    ('14.2 ms', '2.80 s')
    """
    return f"{seconds:.2f} s" if seconds >= 1 else f"{ms(seconds)} ms"
