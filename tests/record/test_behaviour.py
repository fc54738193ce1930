"""An environment is what behaves like one, and a replay memory, too, whatever library it comes from."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from recorded import notes, record, script

import cutaway
from cutaway.trace.reader import read_run

pytestmark = pytest.mark.core
WORLDS = Path(__file__).with_name("worlds.py")
STEPS = 20  # of each world


def decided(path: Path) -> dict[str, str]:
    """What was decided about which class; "" is in doubt."""
    entries = [
        e for p in read_run(path).processes for e in p.log.others if e["k"] == "decided"
    ]
    return {e["what"].removeprefix("worlds."): e["operation"] for e in entries}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("worlds")
    shutil.copy(WORLDS, folder)
    record(folder, "worlds.py")
    return folder / "run.cutaway"


def test_every_shape_of_environment_is_found_and_nothing_else(recorded: Path) -> None:
    assert notes(recorded) == []
    found = decided(recorded)
    worlds = "Bare Gym21 Vector Privileged Functional DeepMind Physics Parallel InTurns Dreamed Outer".split()
    expected = {f"{name}.step": "simulation" for name in worlds}
    expected |= {
        "Advancing.advance": "simulation",
        "Ring.sample": "replay",
        "OfflineBuffer.sample": "replay",
        "OthelloMCTS.search": "search",
        "OthelloMCTS.getActionProb": "search",
        "Network.predict": "inference",
    }
    expected |= {"Doubtful.step": "", "Meter.step": ""}  # offered as questions
    assert found == expected


def test_steps_are_as_many_as_rewards_and_wrappers_count_once(recorded: Path) -> None:
    # The first call of each environment only decides; inside Outer, Bare is known already.
    narrow, wide, wrapped = 8 * 19, 3 * 8 * 19, 20
    expected = narrow + wide + wrapped
    assert cutaway.open(recorded).swept.pace.steps.tolist() == [expected]


def test_a_tree_search_is_one_operation_however_deep_it_goes(recorded: Path) -> None:
    run = cutaway.open(recorded)
    found = {row["operation"]: row["count"] for row in run.operations()}
    assert found["search"] == STEPS
    table = run.breakdown(by=("operation", "why"))
    reasons = {(row["operation"], row["why"]) for row in table}
    assert ("inference", "a framework named it") in reasons  # what predicts inside it


@pytest.mark.parametrize("name", ["world.World.advance", "world.move"])
def test_the_user_says_what_the_simulation_is(tmp_path: Path, name: str) -> None:
    script(
        tmp_path,
        """
        class World:
            def advance(self): return 1
        def move(state): return state + 1
        """,
        "world.py",
    )
    script(
        tmp_path,
        """
        import world
        one, state = world.World(), 0
        for _ in range(10):
            one.advance(); state = world.move(state)
        """,
    )
    (seen,) = record(tmp_path, "--simulation", name, "train.py")
    assert seen.operations == {"simulation": 10}
    assert seen.steps == 10
    assert notes(tmp_path / "run.cutaway") == []


def test_a_simulation_that_is_nowhere_is_a_note(tmp_path: Path) -> None:
    script(tmp_path, "class World:\n    def move(self): ...\n")
    record(tmp_path, "--simulation", "train.World.advance", "train.py")
    assert any(
        "train.World.advance was not found" in note
        for note in notes(tmp_path / "run.cutaway")
    )


def test_a_metaclass_with_a_hash_of_its_own_is_not_asked(tmp_path: Path) -> None:
    program = """
        class Picky(type):
            def __hash__(cls):
                raise TypeError("do not hash me")

        class World(metaclass=Picky):  # there before the recording begins
            def step(self, action):
                return action

        import numpy  # a program with arrays: all classes are looked at
        import cutaway
        with cutaway.record("run.cutaway"):
            World().step(1)
    """
    (tmp_path / "train.py").write_text(textwrap.dedent(program))
    done = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert notes(tmp_path / "run.cutaway") == []


def test_a_memory_that_sets_priorities_does_so_as_replay(tmp_path: Path) -> None:
    text = """
    class Memory:
        def push(self, one): ...
        def sample(self, n): return list(range(n)), list(range(n))
        def update_priorities(self, numbers, errors): return sum(x * x for x in range(1000))

    memory = Memory()
    for _ in range(30):
        memory.push(1)
        memory.sample(32)
        memory.update_priorities([1], [2.0])
    """
    script(tmp_path, text)
    record(tmp_path, "train.py")
    rows = cutaway.open(tmp_path / "run.cutaway").operations()
    assert {row["operation"]: row["count"] for row in rows}["replay"] == 30 * 3


TABULAR = """
    class Coin:
        def reset(self): return 0
        def step(self, action): return 0, 1.0, False, {}

    class Table:
        def __init__(self): self.values = [0.0, 0.0]
        def get_action(self, state): return int(self.values[1] > self.values[0])
        def update(self, state, action, reward, next_state):
            for _ in range(200): self.values[action] += 0.01 * (reward - self.values[action])

    class Meter:
        def get_action(self): return 0
        def update(self, reward): ...

    env, agent, meter = Coin(), Table(), Meter()
    state = env.reset()
    for _ in range(40):
        action = agent.get_action(state)
        new, reward, *_ = env.step(action)
        agent.update(state, action, reward, new)
        meter.update(reward)
        state = new
"""


def test_an_agent_without_a_network_chooses_and_learns(tmp_path: Path) -> None:
    script(tmp_path, TABULAR)
    record(tmp_path, "train.py")
    assert decided(tmp_path / "run.cutaway") == {
        "train.Coin.step": "simulation",
        "train.Table.get_action": "inference",
        "train.Table.update": "backpropagation",
    }
    rows = cutaway.open(tmp_path / "run.cutaway").operations()
    counts = {row["operation"]: row["count"] for row in rows}
    assert counts["backpropagation"] == counts["inference"] == 40
