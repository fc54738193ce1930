"""gymnasium and plain PyTorch: operations, steps and iterations are found without a word in the program."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from named import operations
from recorded import EXAMPLES, notes, one, record, script
from recorded_calls import calls

import cutaway


def test_the_outermost_environment_counts_whatever_wraps_it(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import gymnasium as gym
        class Mine(gym.Env):
            observation_space = action_space = gym.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None): return 0, {}
            def step(self, action): return 0, 0.0, False, False, {}
        class Double(gym.Wrapper):
            def step(self, action):
                self.env.step(action)
                return self.env.step(action)
        env = Double(gym.wrappers.RecordEpisodeStatistics(Mine()))
        env.reset()
        for _ in range(10): env.step(0)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert dict(seen.operations) == {"simulation": 11}
    assert seen.steps == 10
    assert seen.role == "env worker"


@pytest.mark.parametrize(("kind", "processes"), [("sync", 1), ("async", 3)])
def test_vector_environments_count_their_width(
    tmp_path: Path, kind: str, processes: int
) -> None:
    script(
        tmp_path,
        f"""
        import gymnasium as gym
        if __name__ == "__main__":
            envs = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="{kind}")
            envs.reset(seed=1)
            for i in range(10): envs.step([i % 2] * 2)  # no pole falls: the step after a fall would be a reset
            envs.close()
        """,
    )
    seen = record(tmp_path, "train.py")
    main = one(seen, name="train")
    assert main.operations["simulation"] == 11
    assert main.steps == 20
    assert len(seen) == processes
    assert all(p.steps == 10 and p.role == "env worker" for p in seen if p is not main)


def test_a_torch_loop_in_the_manner_of_cleanrl(tmp_path: Path) -> None:
    words = "--iterations 3 --steps 16 --envs 2 --epochs 2 --minibatches 2".split()
    (seen,) = record(tmp_path, EXAMPLES / "ppo.py", *words)
    assert seen.operations["simulation"] == 3 * 16 + 1
    assert seen.steps == 3 * 16 * 2
    assert (
        seen.operations["backpropagation"] == 3 * 2 * 2 * 2
    )  # backward and step of each minibatch
    named = operations(tmp_path / "run.cutaway")
    assert named["inference"] == 3 * 16  # before each step
    assert (
        named["replay"] == 3 * 16 + 1
    )  # what is stored after each step, and after the reset
    # All epochs of an iteration are one update, the bootstrap value included.
    assert named["backpropagation"] == 3
    assert seen.iterations == 3
    assert seen.role == "learner"
    assert notes(tmp_path / "run.cutaway") == []


def test_users_annotations_win(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, gymnasium as gym, torch
        env = gym.make("CartPole-v1")
        model = torch.nn.Linear(4, 2)
        with cutaway.operation("search"):
            env.reset(seed=1)
            for _ in range(5):
                env.step(0)
                with torch.no_grad(): model(torch.zeros(1, 4))
        class Inner(gym.Wrapper):
            def step(self, action):
                with cutaway.operation("physics"): return self.env.step(action)
        env = Inner(env)
        env.reset()
        env.step(0)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.inside == {
        ("search", ""): 1,
        ("simulation", ""): 2,
        ("physics", "simulation"): 1,
    }
    assert seen.steps == 6


def test_users_iterations_win(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, gymnasium as gym, torch
        env = gym.make("CartPole-v1"); env.reset(seed=1)
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(4):
            cutaway.iteration()
            for _ in range(3):
                env.step(0)
                weight.square().sum().backward()
                optimizer.step()
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 4
    assert seen.operations["backpropagation"] == 24


def test_no_auto_leaves_only_the_users_own(tmp_path: Path) -> None:
    (seen,) = record(
        tmp_path, "--no-auto", EXAMPLES / "ppo.py", "--iterations", "1", "--steps", "4"
    )
    assert not seen.operations
    assert (seen.iterations, seen.steps) == (0, 0)


def test_environments_still_pickle_copy_and_introspect(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import copy, inspect, pickle
        import cloudpickle, gymnasium as gym
        class Mine(gym.Env):
            observation_space = action_space = gym.spaces.Discrete(2)
            def reset(self, *, seed=None, options=None): return 0, {}
            def step(self, action):
                "One step."
                return action, 0.0, False, False, {}
        env = Mine()
        for other in (copy.deepcopy(env), pickle.loads(pickle.dumps(env)), cloudpickle.loads(cloudpickle.dumps(env))):
            assert other.step(7)[0] == 7
        made = cloudpickle.loads(cloudpickle.dumps(Mine))()
        assert made.step(3)[0] == 3
        assert pickle.loads(pickle.dumps(env.step))(5)[0] == 5
        assert list(inspect.signature(Mine.step).parameters) == ["self", "action"]
        assert (Mine.step.__name__, Mine.step.__qualname__, Mine.step.__doc__) == ("step", "Mine.step", "One step.")
        assert "def step" in inspect.getsource(Mine.step)
        assert callable(Mine.step) and inspect.ismethod(env.step)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.steps == 5


def test_modules_still_script_trace_and_compile(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import copy, pickle, torch
        from torch import fx, nn
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        x = torch.ones(1, 3)
        with torch.no_grad():
            y = model(x)
            assert torch.equal(torch.jit.script(model)(x), y)
            assert torch.equal(torch.jit.trace(model, x)(x), y)
            assert torch.equal(fx.symbolic_trace(model)(x), y)
            assert torch.equal(torch.compile(model, backend="eager", fullgraph=True)(x), y)
            assert torch.equal(copy.deepcopy(model)(x), y)
            assert torch.equal(pickle.loads(pickle.dumps(model))(x), y)
        optimizer = torch.optim.Adam(model.parameters())
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        model(x).sum().backward(); optimizer.step(); scheduler.step()
        assert torch.autograd.grad(model(x).sum(), list(model.parameters()))
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.operations["backpropagation"] == 3
    assert operations(tmp_path / "run.cutaway")["inference"] > 0


def test_torch_compile_meets_nothing_of_ours(tmp_path: Path) -> None:
    program = """
        import torch, torch._dynamo.utils
        from torch import nn
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
        optimizer = torch.optim.Adam(model.parameters())

        @torch.compile(backend="eager")
        def update(x):
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()

        for _ in range(3): update(torch.ones(1, 3))
        counters = torch._dynamo.utils.counters
        with open("frames", "w") as file: print(dict(counters["frames"]), dict(counters["stats"]), file=file)
        """
    frames = []
    for record_it in (False, True):
        script(tmp_path, program)
        if record_it:
            assert (
                record(tmp_path, "train.py") and notes(tmp_path / "run.cutaway") == []
            )
        else:
            subprocess.run(
                [sys.executable, "train.py"],
                cwd=tmp_path,
                check=True,
                capture_output=True,
            )
        frames.append((tmp_path / "frames").read_text())
    assert frames[0] == frames[1]


def test_everything_is_put_back(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import cutaway, gymnasium as gym, torch
        from gymnasium.envs.classic_control import CartPoleEnv
        from stable_baselines3 import PPO
        owners = (gym.Env, CartPoleEnv, gym.Wrapper, PPO, torch.optim.Adam, torch.nn.Module, torch.autograd)
        before = [dict(vars(owner)) for owner in owners]
        with cutaway.record("inside.cutaway"):
            during = [dict(vars(owner)) for owner in owners]
        assert [dict(vars(owner)) for owner in owners] == before
        assert during[1] != before[1]
        """,
    )
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "train.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_a_jax_loop(tmp_path: Path) -> None:
    (seen,) = record(tmp_path, EXAMPLES / "jax_dqn.py", "--steps", "100")
    assert seen.steps == 100
    assert seen.operations["inference"] == 100
    assert seen.operations["backpropagation"] == 9
    assert (
        seen.iterations == 10
    )  # one begins with the first step, and one after each update
    (row,) = cutaway.open(tmp_path / "run.cutaway").processes()
    assert row["role"] == "learner"  # by the program's own annotations
    assert seen.calls > 0


def test_vector_environments_in_processes_of_their_own(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import gymnasium as gym, numpy
        if __name__ == "__main__":
            env = gym.vector.AsyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2)
            env.reset(seed=0)
            for number in range(8): env.step(numpy.array([number % 2] * 2))
            env.close()
        """,
    )
    seen = record(tmp_path, "train.py")
    parent = one(seen, name="train")
    workers = [p for p in seen if p is not parent]
    assert parent.steps == 2 * 8
    assert [(p.role, p.steps, p.ppid) for p in workers] == [
        ("env worker", 8, parent.pid)
    ] * 2
    waits = [c for c in calls(tmp_path / "run.cutaway", "wait") if c.pid == parent.pid]
    assert any(c.on.startswith(("pipe:", "socket:")) for c in waits)
