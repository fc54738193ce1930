"""Layer simulator: each simulator library, stepped for real; the number of recorded steps is the number made."""

from __future__ import annotations

import importlib
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recorded import one, record, script
from recorded_calls import Seen, calls, recording

import cutaway
from cutaway.record import layers


def _record(folder: Path, work: Any) -> list[Seen]:
    layers.install()
    with recording(folder):
        work()
    return calls(folder, "simulator")


def test_the_arcade_learning_environment(tmp_path: Path) -> None:
    import ale_py
    import ale_py.roms

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    ale = ale_py.ALEInterface()
    ale.loadROM(ale_py.roms.get_rom_path("pong"))

    def work() -> None:
        for _ in range(20):
            ale.act(0)
        ale.getScreenRGB()
        ale.reset_game()

    seen = [c.fn for c in _record(tmp_path, work)]
    assert seen.count("ale.ALEInterface.act") == 20
    assert seen.count("ale.ALEInterface.getScreenRGB") == 1
    assert seen.count("ale.ALEInterface.reset_game") == 1


def test_mujoco_and_its_callbacks(tmp_path: Path) -> None:
    import mujoco

    model = mujoco.MjModel.from_xml_string(
        "<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>"
    )
    data = mujoco.MjData(model)
    controlled = []

    def control(model: Any, data: Any) -> None:
        controlled.append(mujoco.mj_getTotalmass(model))

    def work() -> None:
        for _ in range(10):
            mujoco.mj_step(model, data)
        mujoco.set_mjcb_control(control)
        mujoco.mj_step(model, data)
        mujoco.set_mjcb_control(None)

    seen = _record(tmp_path, work)
    assert [c.fn for c in seen].count("mujoco.mj_step") == 11
    inner = [c for c in seen if c.fn == "mujoco.mj_getTotalmass"]
    assert len(inner) == len(controlled) > 0
    assert {c.parents for c in inner} == {("mujoco.mj_step", "control")}


def test_box2d(tmp_path: Path) -> None:
    import Box2D

    world = Box2D.b2World(gravity=(0, -10))
    world.CreateDynamicBody(position=(0, 4))

    def work() -> None:
        for _ in range(15):
            world.Step(0.02, 6, 2)

    assert [c.fn for c in _record(tmp_path, work)].count("Box2D.b2World.Step") == 15


def test_openspiel(tmp_path: Path) -> None:
    import pyspiel

    game = pyspiel.load_game("tic_tac_toe")

    def work() -> None:
        state = game.new_initial_state()
        for action in (0, 1, 2):
            state.apply_action(action)
        state.legal_actions()

    seen = [c.fn for c in _record(tmp_path, work)]
    assert seen.count("pyspiel.State.apply_action") == 3
    assert seen.count("pyspiel.State.legal_actions") == 1
    assert seen.count("pyspiel.Game.new_initial_state") == 1


def test_pybullet(tmp_path: Path) -> None:
    import pybullet

    client = pybullet.connect(pybullet.DIRECT)
    shape = pybullet.createCollisionShape(
        pybullet.GEOM_SPHERE, radius=0.5, physicsClientId=client
    )
    body = pybullet.createMultiBody(
        1.0, shape, basePosition=[0, 0, 2], physicsClientId=client
    )

    def work() -> None:
        for _ in range(25):
            pybullet.stepSimulation(physicsClientId=client)
        pybullet.getBasePositionAndOrientation(body, physicsClientId=client)

    seen = _record(tmp_path, work)
    pybullet.disconnect(client)
    steps = [c for c in seen if c.fn == "pybullet.stepSimulation"]
    assert len(steps) == 25 and all(c.end > c.start for c in steps)
    assert [c.fn for c in seen].count("pybullet.getBasePositionAndOrientation") == 1


# In a process of its own: its threads would live on in this one.
ENVPOOL = """
import envpool, numpy
env = envpool.make_gymnasium("{}", num_envs=4)
env.reset()
for _ in range(30):
    env.step(numpy.zeros(4, numpy.int32))
env.close()
"""


@pytest.mark.parametrize(
    ("name", "family"),
    [("CartPole-v1", "classic_control._CartPole"), ("Pong-v5", "atari._Atari")],
)
def test_envpool(tmp_path: Path, name: str, family: str) -> None:
    program = script(tmp_path, ENVPOOL.format(name))
    seen = one(record(tmp_path, program))
    assert seen.steps == 4 * 30
    assert seen.operations["simulation"] == 31
    in_pool = Counter(c.fn for c in calls(tmp_path / "run.cutaway", "simulator"))
    package, kind = family.split(".")
    prefix = f"envpool.{package}.{package}_envpool.{kind}EnvPool"
    assert {f: n for f, n in in_pool.items() if n > 5} == {
        f"{prefix}._send": 30,
        f"{prefix}._recv": 31,
    }
    waited = sum(
        c.end - c.start
        for c in calls(tmp_path / "run.cutaway", "simulator")
        if c.fn.endswith("_recv")
    )
    assert waited > 0


def test_environments_written_in_python_stay_python(tmp_path: Path) -> None:
    """As MiniGrid or Procgen-like grids are: no native library simulates, so nothing is in layer simulator."""
    program = script(
        tmp_path,
        """
        import gymnasium
        class Grid(gymnasium.Env):
            observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None):
                self.at = 0
                return 0, {}
            def step(self, action):
                self.at = (self.at + action) % 9
                return self.at, 1.0, False, False, {}
        env = Grid()
        env.reset()
        for _ in range(50): env.step(1)
        """,
    )
    seen = one(record(tmp_path, program))
    assert (seen.steps, seen.operations["simulation"]) == (50, 51)
    assert not calls(tmp_path / "run.cutaway", "simulator")
    table = cutaway.open(tmp_path / "run.cutaway").breakdown(by=("operation", "layer"))
    times = zip(table["operation"], table["layer"], table["ns"], strict=True)
    assert {
        layer for operation, layer, ns in times if operation == "simulation" and ns > 0
    } == {"python"}


def test_a_module_of_the_users(tmp_path: Path) -> None:
    """What the user names is a simulator, whatever we would have taken it for."""
    program = """
import numpy as np
generator = np.random.default_rng(1)
for _ in range(4): generator.random(3)
"""
    script(tmp_path, program)
    record(tmp_path, "--simulator", "numpy.random", "train.py")
    seen = Counter(c.fn for c in calls(tmp_path / "run.cutaway", "simulator"))
    assert seen["numpy.random._generator.Generator.random"] == 4


def test_a_layer_that_does_not_exist() -> None:
    with pytest.raises(ValueError, match="no layer 'gpu'"):
        layers.add("math", "gpu")


@pytest.mark.parametrize(
    ("name", "function", "arguments", "builtin"),
    [
        ("_codecs_kr", "getcodec", ("euc_kr",), False),
        ("xxsubtype", "bench", ([], "append", 2), True),
    ],
)
def test_a_module_imported_later(
    tmp_path: Path, name: str, function: str, arguments: tuple[Any, ...], builtin: bool
) -> None:
    """Also one that is part of Python itself: which ones are is up to who built it."""
    sys.modules.pop(name, None)
    layers.add(name, "simulator")

    def work() -> None:
        module = importlib.import_module(name)
        getattr(module, function)(*arguments)
        assert isinstance(module.__loader__, type) == builtin
        assert (
            module.__spec__ is not None and module.__spec__.loader is module.__loader__
        )

    assert (name in sys.builtin_module_names) == builtin
    assert [c.fn for c in _record(tmp_path, work)] == [f"{name}.{function}"]
