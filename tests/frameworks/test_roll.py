"""ROLL's timers are those of codetiming: its real class opens operations once a package called roll is there."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script

PROGRAM = """
import roll
from codetiming import Timer

for _ in range(3):
    with Timer(name="step_total", logger=None):
        with Timer(name="step_generate", logger=None) as generating:
            for _ in range(2):
                with Timer(name="generate", logger=None): pass
                with Timer(name="step", logger=None): pass
        with Timer(name="step_train", logger=None): pass
    assert generating.last >= 0
"""


def test_timers_of_its_driver_and_its_environments(tmp_path: Path) -> None:
    (tmp_path / "roll").mkdir()
    (tmp_path / "roll" / "__init__.py").write_text("")
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 3
    assert seen.operations == {"generation": 9, "tool": 6, "backpropagation": 3}
