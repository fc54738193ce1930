"""Frameworks that time their own steps: their timers open operations."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

pytestmark = pytest.mark.core

# The timers of SkyRL, slime, ROLL, AReaL and NeMo-RL in shape: the frameworks themselves need GPUs.
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
CODETIMING = """
class Timer:
    def __init__(self, name=None, logger=print): self.name = name
    def __enter__(self): return self
    def __exit__(self, *error): pass
"""
AREAL = """
import contextlib
class Tracker:
    @contextlib.contextmanager
    def record_timing(self, key):
        timed.append(key)
        yield
timed = []
record_timing = Tracker().record_timing
"""
NEMO = """
class Timer:
    def start(self, label, should_log=True): pass
    def stop(self, label, should_log=True): return 0.0
"""


def package(folder: Path, module: str, code: str) -> None:
    path = folder / Path(*module.split("."))
    path.parent.mkdir(parents=True, exist_ok=True)
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


ROLL = """
import roll
from codetiming import Timer

def play(turns):
    with Timer(name="reset"): pass
    for _ in range(turns):
        with Timer(name="generate"): pass
        with Timer(name="step"): pass

for _ in range(3):
    with Timer(name="pipeline_step_total"):
        with Timer(name="model_update"): pass
        with Timer(name="rollout"): play(turns=2)
        with Timer(name="cal_ref_log_probs"): pass
        with Timer(name="train_timer"): pass
        with Timer(name="log"): pass
"""


def test_roll_names_its_environments_and_its_updates(tmp_path: Path) -> None:
    package(tmp_path, "codetiming._timer", CODETIMING)
    init = tmp_path / "codetiming" / "__init__.py"
    init.write_text("from codetiming._timer import Timer")
    package(tmp_path, "roll.pipeline", "")
    script(tmp_path, ROLL)
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 3
    assert seen.operations == {
        "sync": 3,
        "generation": 9,
        "tool": 9,
        "reference": 3,
        "backpropagation": 3,
    }
    assert seen.inside["tool", "generation"] == 9


def test_the_timers_of_other_programs_mean_nothing(tmp_path: Path) -> None:
    package(tmp_path, "codetiming._timer", CODETIMING)
    init = tmp_path / "codetiming" / "__init__.py"
    init.write_text("from codetiming._timer import Timer")
    script(tmp_path, ROLL.replace("import roll\n", ""))
    (seen,) = record(tmp_path, "train.py")
    assert not seen.operations and not seen.iterations


def test_a_timer_that_is_a_method_kept_by_its_module(tmp_path: Path) -> None:
    package(tmp_path, "areal.utils.stats_tracker", AREAL)
    script(
        tmp_path,
        """
from areal.utils import stats_tracker
for _ in range(3):
    for key in ("rollout", "recompute_logp", "train_step", "rollout_pause", "update_weights", "clear_batches"):
        with stats_tracker.record_timing(key): pass
    try:
        with stats_tracker.record_timing("save"): raise ValueError
    except ValueError: pass
assert len(stats_tracker.timed) == 21
""",
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 3
    expected = "generation reference backpropagation sync checkpoint".split()
    assert seen.operations == {**dict.fromkeys(expected, 3), "sync: pause": 3}


def test_prime_rl_waits_trains_and_sends_weights(tmp_path: Path) -> None:
    package(
        tmp_path,
        "prime_rl.trainer.rl.data",
        "class DataLoader:\n    def wait_for_batch(self): pass\n    def get_batch(self): return [1, 2]\n",
    )
    package(tmp_path, "prime_rl.trainer.model", "def forward(model, ids): pass\n")
    package(
        tmp_path,
        "prime_rl.transports.weights.base",
        "class WeightBroadcast:\n    def broadcast_weights(self, model, step): raise NotImplementedError\n",
    )
    script(
        tmp_path,
        """
from prime_rl.trainer.model import forward
from prime_rl.trainer.rl.data import DataLoader
from prime_rl.transports.weights.base import WeightBroadcast

class Files(WeightBroadcast):
    def broadcast_weights(self, model, step): pass

loader, sender = DataLoader(), Files()
for step in range(3):
    loader.wait_for_batch()
    for batch in loader.get_batch():
        forward(None, batch)
    sender.broadcast_weights(None, step)
""",
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 3
    assert seen.operations == {"replay": 6, "backpropagation": 6, "sync": 3}


AWAITED = """
import asyncio
import logging
import time
from skyrl.train.utils.utils import Timer

async def generates():
    for _ in range(2):
        async with Timer("generate"):
            time.sleep(0.001)
            await asyncio.sleep(0)

async def trains():
    with Timer("step"):
        async with Timer("generate"):
            await asyncio.sleep(0)
        with Timer("train_critic_and_policy"):
            time.sleep(0.001)

async def main():
    await asyncio.gather(generates(), trains())

asyncio.run(main())
"""
SKYRL_AWAITED = """
    async def __aenter__(self): return self
    async def __aexit__(self, *error): pass
"""


def test_timers_that_are_awaited_take_turns_on_a_thread(tmp_path: Path) -> None:
    package(tmp_path, "skyrl.train.utils.utils", SKYRL + SKYRL_AWAITED)
    script(tmp_path, AWAITED)
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 1
    # Timers of two tasks have the same name; each is closed by its own task, before and after it waits.
    assert seen.operations == {"generation": 6, "backpropagation": 1}
    assert seen.inside["generation", "generation"] == 0


STARVED = """
from nemo_rl.utils.timer import Timer
timer = Timer()

def run(*labels):
    for label in labels: timer.start(label)
    for label in reversed(labels): timer.stop(label)

for _ in range(3):
    for _ in range(4):
        timer.start("total_step_time")
        run("exposed_generation", "idle/buffer_starvation")
        timer.stop("total_step_time")
    timer.start("total_step_time")
    run("exposed_generation")
    run("policy_training")
    timer.stop("total_step_time")
"""


def test_a_step_that_waits_for_samples_and_begins_again_is_one(tmp_path: Path) -> None:
    package(tmp_path, "nemo_rl.utils.timer", NEMO)
    script(tmp_path, STARVED)
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 3
    assert seen.operations == {"replay": 15, "backpropagation": 3}
