"""The trainer as a user starts it."""

import re
import signal
import subprocess
import sys

import pytest
from emulated import EMULATED

MODULE = [sys.executable, "-m", "cutaway_workloads.r2d2"]
TINY = [
    "--env",
    "tmaze:3",
    "--small",
    "--hidden",
    "16",
    "--batch",
    "8",
    "--replay-minimum",
    "8",
    "--progress-seconds",
    "0.5",
]


def run(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [*MODULE, *arguments], capture_output=True, text=True, timeout=600
    )


def numbers(line: str) -> dict[str, float]:
    return {key: float(value) for key, value in re.findall(r"(\w+)=(\S+)", line)}


@pytest.mark.parametrize("rule", ["seed", "dynamic"])
def test_an_emulated_accelerator_runs_atari_and_keeps_the_replay_ratio(rule):
    done = run(
        "--env",
        "atari:Pong",
        "--actors",
        "2",
        "--steps",
        "1500",
        "--batch-rule",
        rule,
        *EMULATED,
    )
    assert done.returncode == 0, done.stderr
    last = numbers(done.stdout.splitlines()[-1])
    assert done.stdout.splitlines()[-1].startswith("done ")
    assert last["frames"] == 4 * last["steps"] and last[
        "frames_per_s"
    ] == pytest.approx(4 * last["steps_per_s"], rel=0.01)
    assert last["steps"] >= 1500 and last["updates"] > 10
    assert last["updates"] * int(8 / 1.5) * 10 <= last["steps"]


def test_terminate_saves_and_resume_goes_on_and_evaluate_plays(tmp_path):
    folder = ["--directory", str(tmp_path), "--checkpoint-replay"]
    process = subprocess.Popen(
        [*MODULE, *TINY, *folder, "--tensorboard"], stdout=subprocess.PIPE, text=True
    )
    for line in process.stdout:
        if numbers(line).get("updates", 0) > 3:
            break
    process.send_signal(signal.SIGTERM)
    last = process.stdout.read().splitlines()[-1]
    assert process.wait(timeout=300) == 0
    before = numbers(last)
    assert (tmp_path / "checkpoint.pt").exists() and not (
        tmp_path / "checkpoint.pt.new"
    ).exists()
    assert list(tmp_path.glob("events.out.tfevents*"))
    assert (tmp_path / "replay.npz").exists()

    again = run(
        *TINY, *folder, "--resume", "--updates", str(int(before["updates"]) + 2)
    )
    assert again.returncode == 0, again.stderr
    after = numbers(again.stdout.splitlines()[-1])
    assert (
        after["steps"] > before["steps"] and after["updates"] >= before["updates"] + 2
    )

    empty = run(*TINY, "--directory", str(tmp_path), "--resume", "--updates", "1")
    assert (
        "resumed without a replay" in empty.stdout
        and "resumed without" not in again.stdout
    )

    played = run(*TINY, *folder, "--evaluate", "3")
    assert numbers(played.stdout)["episodes"] == 3

    other = run(*TINY, *folder, "--resume", "--hidden", "24")
    assert (other.returncode, other.stdout) == (1, "")
    assert (
        other.stderr.startswith("r2d2: The checkpoint in ")
        and "another network" in other.stderr
    )


@pytest.mark.parametrize(
    "arguments, code, words",
    [
        (["--env", "atari:Ponk"], 1, "There is no Atari game 'Ponk'"),
        (["--device", "cuda"], 1, "There is no CUDA device here"),
        (["--env", "tmaze:3", "--evaluate", "1"], 1, "need --directory"),
        (["--actors", "0"], 2, "not a positive number"),
        (["--emulate-device", "fast"], 2, "as in 300,20,5000"),
    ],
)
def test_mistakes_are_answered_in_one_sentence(arguments, code, words):
    answer = run(*arguments)
    assert answer.returncode == code
    assert words in answer.stderr and "Traceback" not in answer.stderr
