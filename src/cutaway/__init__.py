"""Cutaway: a profiler for deep reinforcement learning. The public names and nothing else.

>>> import cutaway
>>> with cutaway.operation("inference"):
...     action = 1 + 1
>>> @cutaway.operation("simulation")
... def step(action):
...     return action

Outside a recording these cost next to nothing. Names are loaded when they are first used: reading a trace needs no
recorder, and recording needs no NumPy.
"""

from __future__ import annotations

from cutaway.errors import CutawayError
from cutaway.version import __version__ as __version__

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from cutaway._recorder import iteration as iteration
    from cutaway._recorder import operation as operation
    from cutaway._recorder import phase as phase
    from cutaway._recorder import step as step
    from cutaway.analysis import open as open
    from cutaway.record.gauges import gauge as gauge
    from cutaway.record.session import Recording as record
    from cutaway.record.session import describe as describe
    from cutaway.record.session import layer as layer

_HOMES = {
    **dict.fromkeys(("iteration", "operation", "phase", "step"), "cutaway._recorder"),
    **dict.fromkeys(("describe", "layer"), "cutaway.record.session"),
    "gauge": "cutaway.record.gauges",
    "open": "cutaway.analysis",
}
__all__ = ["CutawayError", "record", *_HOMES]


def __getattr__(name: str) -> Any:
    import importlib

    if name == "record":  # the package itself can be called
        return importlib.import_module("cutaway.record")
    if name not in _HOMES:
        raise AttributeError(f"module 'cutaway' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    if home.__name__ == "cutaway._recorder" and home.refused:
        home = importlib.import_module("cutaway.record.operations")
    value = getattr(home, name)
    globals()[name] = value
    return value


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext cutaway` calls."""
    from cutaway.notebook import load

    load(shell)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
