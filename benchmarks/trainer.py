"""Agent steps a second on Pong: our trainer beside Stable-Baselines3 and Sample Factory, same number of environments.

    python benchmarks/trainer.py [--seconds 30] [--envs 4]      about four minutes; prints a Markdown table
        [--sample-factory PYTHON]     an interpreter with sample-factory, ale-py >= 0.9 and OpenCV (own environment)

All arms run here, one after another. Steps a second need a quiet machine; CPU time for a step, summed over all
processes of an arm, hardly depends on who else is there. The arms do different amounts of arithmetic for a step,
which the last column says in forward passes of their own network.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
R2D2 = ("--replay-minimum", "4", "--queue", "4", "--replay-ratio", "1.5")
OURS = [
    sys.executable,
    "-m",
    "cutaway_workloads.r2d2",
    "--env",
    "atari:Pong",
    "--progress-seconds",
    "1",
]


class Result(NamedTuple):
    steps_per_s: float
    cpu_ms: float  # for one step


def cpu_seconds(session: int) -> dict[int, float]:
    """CPU time of every process of a session, by process id."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            found[int(stat.parent.name)] = (
                int(fields[11]) + int(fields[12])
            ) / os.sysconf("SC_CLK_TCK")
    return found


def run(command: list[str], limit: float = float("inf")) -> tuple[str, float]:
    """Output of a command, and the CPU seconds of all its processes between its first and its last step line.

    A program that does not keep its own time is ended, with all its processes, after `limit` seconds of steps.
    """
    out, used, start = [], {}, 0.0
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        out.append(line)
        used |= cpu_seconds(process.pid)
        if line.startswith("begin"):
            start = sum(used.values())
        elif line.startswith("end") and float(line.rsplit("=", 1)[1]) >= limit:
            os.killpg(process.pid, signal.SIGKILL)
            break
    if process.wait() > 0:
        raise SystemExit(f"{command[0]} … failed with {process.returncode}")
    return "".join(out), sum(used.values()) - start


def ours(envs: int, seconds: float, *more: str) -> Result:
    """From the first progress line with steps to the last."""
    out, used = run(
        [
            sys.executable,
            __file__,
            "--run-ours",
            "--envs",
            str(envs),
            "--seconds",
            str(seconds),
            *more,
        ]
    )
    return _result(out, used)


def stable_baselines3(envs: int, seconds: float) -> Result:
    return _result(
        *run(
            [
                sys.executable,
                __file__,
                "--run-sb3",
                "--envs",
                str(envs),
                "--seconds",
                str(seconds),
            ]
        )
    )


def sample_factory(python: str, envs: int, seconds: float) -> Result:
    return _result(
        *run(
            [python, str(HERE / "sample_factory_pong.py"), str(envs), str(seconds)],
            seconds,
        )
    )


def _result(out: str, used: float) -> Result:
    steps, seconds = re.findall(r"^end steps=(\S+) seconds=(\S+)", out, re.M)[-1]
    return Result(float(steps) / float(seconds), 1000 * used / float(steps))


def run_ours(more: list[str], envs: int, seconds: float) -> None:
    """Our trainer with a line when the first step is made and one at the end."""
    command = [*OURS, "--actors", str(envs), "--seconds", str(seconds), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first, start, steps = 0, 0.0, 0
    for line in process.stdout:
        if match := re.match(r"steps=(\d+)", line):
            steps, now = int(match[1]), time.monotonic()
            if steps and not start:
                first, start = steps, now
                print("begin", flush=True)
            elif start:
                print(f"end steps={steps - first} seconds={now - start}", flush=True)
    raise SystemExit(process.wait())


def run_sb3(envs: int, seconds: float) -> None:
    """PPO with SubprocVecEnv, SB3's Atari settings; whole rollouts with their training, after the first."""
    import ale_py
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    gymnasium.register_envs(ale_py)
    torch.set_num_threads(1)

    class Clock(BaseCallback):
        start: tuple[float, int] | None = None

        def _on_rollout_start(self) -> None:
            now = (time.monotonic(), self.num_timesteps)
            if self.start is None and now[1]:
                self.start = now
                print("begin", flush=True)
            elif self.start is not None:
                print(
                    f"end steps={now[1] - self.start[1]} seconds={now[0] - self.start[0]}",
                    flush=True,
                )

        def _on_step(self) -> bool:
            return self.start is None or time.monotonic() - self.start[0] < seconds

    fork = {"start_method": "fork"}  # the workers then know ale_py's games
    games = make_atari_env(
        "PongNoFrameskip-v4",
        n_envs=envs,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs=fork,
    )
    PPO(
        "CnnPolicy", VecFrameStack(games, 4), n_steps=32, batch_size=64, device="cpu"
    ).learn(10**9, Clock())
    games.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--envs", type=int, default=4)
    parser.add_argument("--sample-factory", metavar="PYTHON", default="")
    parser.add_argument("--run-sb3", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run-ours", action="store_true", help=argparse.SUPPRESS)
    args, more = parser.parse_known_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    n, s = args.envs, args.seconds
    if args.run_sb3:
        run_sb3(n, s)
        return
    if args.run_ours:
        run_ours(more, n, s)
        return
    impala = ("--algorithm", "impala", "--batch", "8", "--unroll", "20")
    arms = {
        "ours, acting only": (lambda: ours(n, s, "--no-train"), "1"),
        "ours, R2D2": (
            lambda: ours(
                n, s, "--batch", "4", "--unroll", "40", "--burn-in", "20", *R2D2
            ),
            "8.4",
        ),
        "ours, IMPALA": (lambda: ours(n, s, *impala), "4"),
        "SB3 PPO, SubprocVecEnv": (lambda: stable_baselines3(n, s), "31 (10 epochs)"),
    }
    if args.sample_factory:
        arms["Sample Factory APPO"] = (
            lambda: sample_factory(args.sample_factory, n, s),
            "4",
        )
    print(
        f"| Pong, {n} environments | steps/s | frames/s | CPU ms a step | forward passes a step |\n|---|---|---|---|---|"
    )
    for name, (measure, work) in arms.items():
        result = measure()
        rate = result.steps_per_s
        print(
            f"| {name} | {rate:.0f} | {4 * rate:.0f} | {result.cpu_ms:.1f} | {work} |",
            flush=True,
        )
    if not args.sample_factory:
        print(
            "\nSample Factory was left out: --sample-factory PYTHON names an interpreter that has it."
        )


if __name__ == "__main__":
    main()
