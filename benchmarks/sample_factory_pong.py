"""Sample Factory's APPO on Pong with our preprocessing; prints how many steps it made. Run by benchmarks/trainer.py.

Needs only sample-factory, ale-py >= 0.9 and OpenCV: our environment is loaded from its file, not from the package.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

SOURCES = Path(__file__).parent.parent / "src"


class Pong(gymnasium.Env):  # type: ignore[type-arg]
    """Four stacked 84×84 frames, 18 actions, action repeat 4."""

    observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
    action_space = gymnasium.spaces.Discrete(18)
    render_mode = None

    def __init__(self, seed: int) -> None:
        sys.path.insert(0, str(SOURCES))
        from cutaway_workloads.r2d2.atari import Atari

        self._game = Atari("Pong", seed)
        self._frames = np.zeros((4, 84, 84), np.uint8)

    def reset(self, **_: Any) -> tuple[Any, dict[str, Any]]:
        self._frames[:] = 0
        self._game.reset(self._frames[3])
        return self._frames.copy(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._frames[:3] = self._frames[1:].copy()
        reward, done = self._game.step(int(action), self._frames[3])
        return self._frames.copy(), reward, done, False, {}


def make(name: str, cfg: Any, env_config: Any, render_mode: str | None = None) -> Pong:
    return Pong(1 + (env_config.env_id if env_config else 0))


def main() -> None:
    envs, seconds = int(sys.argv[1]), float(sys.argv[2])
    from sample_factory.algo.utils.context import global_env_registry
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.train import make_runner

    global_env_registry()["pong"] = make
    with tempfile.TemporaryDirectory() as folder:
        argv = [
            *(
                "--algo=APPO",
                "--env=pong",
                "--device=cpu",
                f"--train_dir={folder}",
                "--experiment=pong",
            ),
            *(
                f"--num_workers={envs}",
                "--num_envs_per_worker=2",
                "--worker_num_splits=2",
                "--rollout=20",
            ),
            *(
                "--batch_size=160",
                "--num_batches_per_epoch=1",
                "--num_epochs=1",
                "--env_frameskip=1",
            ),
            *(
                "--use_rnn=True",
                "--rnn_size=512",
                f"--train_for_seconds={int(seconds) + 15}",
                "--seed=1",
            ),
        ]
        cfg = parse_full_cfg(parse_sf_args(argv)[0], argv)
        _, runner = make_runner(cfg)
        runner.register_observer(_Watch())
        runner.init()
        runner.run()


class _Watch:
    """Says how many steps have been collected at each training step, after the first few."""

    def __init__(self) -> None:
        self._seen = 0
        self._start: tuple[float, int] | None = None

    def __getattr__(self, name: str) -> Any:
        return lambda *args: None

    def on_training_step(
        self, runner: Any, training_iteration_since_resume: int
    ) -> None:
        self._seen += 1
        now = (time.monotonic(), sum(runner.env_steps.values()))
        if self._start is None and self._seen > 2:
            self._start = now
            print("begin", flush=True)
        elif self._start is not None:
            print(
                f"end steps={now[1] - self._start[1]} seconds={now[0] - self._start[0]}",
                flush=True,
            )


if __name__ == "__main__":
    main()
