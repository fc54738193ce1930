"""Frameworks that time their own steps: their timers open operations."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

pytestmark = pytest.mark.core

# The timers of SkyRL, slime and NeMo-RL in shape: the frameworks themselves need GPUs.
SKYRL = """
class Timer:
    def __init__(self, message): self.message = message
    def __enter__(self): return self
    def __exit__(self, *error): pass
"""
SLIME = """
class Timer:
    def start(self, name): pass
    def end(self, name): pass
"""
NEMO = """
class Timer:
    def start(self, label, should_log=True): pass
    def stop(self, label, should_log=True): return 0.0
"""


def package(folder: Path, module: str, code: str) -> None:
    path = folder / Path(*module.split("."))
    path.parent.mkdir(parents=True)
    for parent in path.relative_to(folder).parents[:-1]:
        (folder / parent / "__init__.py").write_text("")
    path.with_suffix(".py").write_text(code)


def test_a_context_manager_opens_an_operation_and_begins_iterations(
    tmp_path: Path,
) -> None:
    package(tmp_path, "skyrl.train.utils.utils", SKYRL)
    script(
        tmp_path,
        """
from skyrl.train.utils.utils import Timer
for _ in range(3):
    with Timer("step"):
        with Timer("generate"): pass
        with Timer("policy_train"): pass
        with Timer("something else"): pass
        try:
            with Timer("sync_weights"): raise ValueError
        except ValueError: pass
""",
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 3
    assert seen.operations == {"generation": 3, "backpropagation": 3, "sync": 3}


@pytest.mark.parametrize(
    ("module", "code", "stop", "timer"),
    [
        ("slime.observability.timer", SLIME, "end", "actor_train"),
        ("nemo_rl.utils.timer", NEMO, "stop", "policy_training"),
    ],
)
def test_a_pair_of_methods_opens_and_closes_an_operation(
    tmp_path: Path, module: str, code: str, stop: str, timer: str
) -> None:
    package(tmp_path, module, code)
    script(
        tmp_path,
        f"""
from {module} import Timer
timer = Timer()
for _ in range(4):
    timer.start("{timer}")
    timer.start("unknown")
    timer.{stop}("unknown")
    timer.{stop}("{timer}")
""",
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations == {"backpropagation": 4}
