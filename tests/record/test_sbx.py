"""SBX (Stable-Baselines3 in JAX): the same counts as its sister."""

from __future__ import annotations

from pathlib import Path

from recorded import notes, record, script


def test_on_and_off_policy(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        from sbx import DQN, PPO
        PPO("MlpPolicy", "CartPole-v1", n_steps=32, batch_size=16, n_epochs=1, seed=1).learn(64)
        DQN("MlpPolicy", "CartPole-v1", learning_starts=8, train_freq=4, gradient_steps=1, seed=1).learn(20)
        """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.steps == 64 + 20
    assert seen.iterations == 2 + 5
    assert seen.operations["backpropagation"] == 2 + 3
    assert seen.operations["inference"] >= 64
    assert seen.role == "learner"
    assert notes(tmp_path / "run.cutaway") == []
