"""A seeded training gives the same weights, to the bit, with and without recording."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import cutaway, script

PROGRAMS = {
    "ppo": """
        from stable_baselines3 import PPO
        model = PPO("MlpPolicy", "CartPole-v1", n_steps=64, batch_size=32, seed=3, device="cpu", verbose=1)
        model.learn(128)
        """,
    "sac": """
        from stable_baselines3 import SAC
        model = SAC("MlpPolicy", "Pendulum-v1", learning_starts=20, seed=3, device="cpu")
        model.learn(40)
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_same_weights_same_output(tmp_path: Path, name: str) -> None:
    end = """
        import hashlib, random, numpy, torch
        digest = hashlib.sha256()
        for key, value in model.policy.state_dict().items(): digest.update(key.encode() + value.numpy().tobytes())
        print(digest.hexdigest(), random.random(), numpy.random.rand(), torch.rand(1).item())
        """
    script(tmp_path, PROGRAMS[name] + end)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    plain = subprocess.run(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=environment,
    )
    recorded = cutaway("run", "-q", "train.py", cwd=tmp_path)
    assert plain.returncode == recorded.returncode == 0, recorded.stderr
    # The table SB3 prints holds speeds; everything else is the same.
    lines = [
        [t for t in out.splitlines() if "fps" not in t and "time_elapsed" not in t]
        for out in (plain.stdout, recorded.stdout)
    ]
    assert lines[0] == lines[1]
    assert len(lines[0][-1].split()[0]) == 64
