"""Everything that runs inside the traced process: the standard library and `cutaway._recorder`, nothing else.

The package can be called, because `cutaway.record` is also the public way to record from inside a program:

>>> import cutaway, os, tempfile
>>> path = os.path.join(tempfile.mkdtemp(), "notebook.cutaway")
>>> with cutaway.record(path):
...     with cutaway.operation("inference"):
...         pass
>>> os.path.exists(os.path.join(path, "run.json"))
True
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

    from cutaway.record.session import Recording


class _Callable(ModuleType):
    def __call__(self, path: str, **options: Any) -> Recording:
        from cutaway.record.session import Recording

        return Recording(path, **options)


sys.modules[__name__].__class__ = _Callable
