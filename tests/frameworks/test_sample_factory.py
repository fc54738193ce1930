"""Sample Factory in one process (its serial mode): rollouts, inference, updates, checkpoints, and every step counted."""

from __future__ import annotations

from pathlib import Path

from recorded import one, record, script

PROGRAM = """
import sys
import gymnasium as gym
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import run_rl

class Counted(gym.Wrapper):
    steps = 0
    def step(self, action):
        Counted.steps += 1
        return self.env.step(action)

def make(name, cfg, env_config, render_mode=None):
    return Counted(gym.make("CartPole-v1"))

if __name__ == "__main__":
    register_env("cartpole", make)
    words = (
        "--algo=APPO --env=cartpole --experiment=x --train_dir=. --serial_mode=True --async_rl=False --device=cpu "
        "--batched_sampling=True --num_workers=1 --num_envs_per_worker=2 --worker_num_splits=1 --rollout=8 "
        "--batch_size=32 --num_batches_per_epoch=1 --num_epochs=1 --train_for_env_steps=100 --use_rnn=False "
        "--recurrence=1 --normalize_input=False --encoder_mlp_layers 8"
    ).split()
    parser, _ = parse_sf_args(words)
    run_rl(parse_full_cfg(parser, words))
    open("steps", "w").write(str(Counted.steps))
"""


def test_appo_in_one_process(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM)
    seen = one(record(tmp_path, "train.py"), name="train")
    steps = int((tmp_path / "steps").read_text())
    assert seen.steps == steps >= 100
    assert (
        seen.inside["simulation", "replay"] == steps / 2
    )  # two environments side by side
    assert seen.operations["inference"] == steps / 2
    updates = seen.operations["backpropagation"]
    assert updates >= 3
    # What comes before the first update may be one of its own.
    assert seen.iterations in (
        updates,
        updates + 1,
    )
    assert seen.operations["checkpoint"] >= 1
