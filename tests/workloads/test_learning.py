"""It learns: a task that needs memory, and a control task, each to a stated score."""

import re
import subprocess
import sys

# A run that ends before its limit of steps has reached the return asked for. Its last line is of a moment later, when the
# actors have played on: what it says may lie a little below.
MODULE = [
    sys.executable,
    "-m",
    "cutaway_workloads.r2d2",
    "--small",
    "--hidden",
    "32",
    "--actors",
    "2",
]


def train(*arguments: str) -> dict[str, float]:
    done = subprocess.run(
        [*MODULE, *arguments], capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stderr
    return {
        key: float(value)
        for key, value in re.findall(r"(\w+)=(\S+)", done.stdout.splitlines()[-1])
    }


def test_r2d2_remembers_the_cue_of_the_t_maze():
    """Without memory the expected return is at most 0: the turn is a guess."""
    last = train(
        *(
            "--env",
            "tmaze:3",
            "--envs-per-actor",
            "8",
            "--target-period",
            "50",
            "--learning-rate",
            "2e-3",
        ),
        *("--stop-at-return", "0.8", "--steps", "200000"),
    )
    assert last["steps"] < 200_000
    assert last["greedy_return"] > 0.5


def test_impala_balances_the_pole():
    """A random policy holds CartPole for about 22 steps."""
    last = train(
        *("--env", "CartPole-v1", "--algorithm", "impala", "--envs-per-actor", "8"),
        *("--batch", "8", "--learning-rate", "4e-3"),
        *("--stop-at-return", "80", "--steps", "400000"),
    )
    assert last["steps"] < 400_000
    assert last["greedy_return"] > 50
