"""The command line of the trainer."""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

from cutaway import CutawayError

from .config import Config, EmulatedDevice, NetworkConfig, R2D2Config, ReplayConfig

EPILOG = """\
environments:
  atari:Pong       Arcade Learning Environment, SEED RL's preprocessing
  CartPole-v1      any gymnasium id with flat observations and discrete actions
  cartpole:masked  CartPole without velocities
  tmaze:5          memory task: a cue, a corridor of 5, a junction
  synthetic:500    burns 500 µs of CPU a step

examples:
  python -m cutaway_workloads.r2d2 --actors 8
  python -m cutaway_workloads.r2d2 --env tmaze:5 --small --steps 60000
  python -m cutaway_workloads.r2d2 --env synthetic:500 --seconds 20 \\
      --emulate-device 300,20,5000
  cutaway run -m cutaway_workloads.r2d2 --seconds 60
"""


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return value


def _emulated(text: str) -> EmulatedDevice:
    try:
        return EmulatedDevice(*[float(part) for part in text.split(",")])
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not A,B or A,B,TRAIN in µs, as in 300,20,5000"
        ) from None


def _network(text: str) -> NetworkConfig:
    return NetworkConfig(*[_positive(text)] * 3)


OPTIONS: dict[str, tuple[tuple[str, str, Any, str], ...]] = {
    "what to train": (
        ("--env", "env", str, "environment, see below (default: atari:Pong)"),
        ("--algorithm", "algorithm", ("r2d2", "impala"), "default: r2d2"),
        ("--seed", "seed", int, "default: 1"),
        ("--small", "small", True, "small network and short unrolls, for small tasks"),
    ),
    "processes and devices": (
        ("--actors", "actors", _positive, "actor processes (default: 4)"),
        ("--envs-per-actor", "envs_per_actor", _positive, "stepped one after another (default: 1)"),
        ("--batch-rule", "batch_rule", ("seed", "dynamic"),
         "wait for a full inference batch, or at most --batch-timeout-us (default: seed)"),
        ("--inference-batch N", "inference_batch", int, "observations in a full batch (default: half of all environments)"),
        ("--batch-timeout-us US", "batch_timeout_us", float,
         "how long `dynamic` waits for more after the first request (default: 1000)"),
        ("--device", "device", str, "cpu, cuda or cuda:N; never run on a GPU so far (default: cpu)"),
        ("--threads", "threads", _positive, "PyTorch threads of the learner and of the inference server each (default: 1)"),
        ("--emulate-device A,B[,TRAIN]", "emulate", _emulated,
         "an accelerator that sleeps A + B·n µs for n observations, TRAIN µs for an update"),
        ("--no-train", "train", False, "actors and inference only; unrolls are dropped"),
    ),
    "learning": (
        ("--batch", "batch", _positive, "sequences in a training batch (default: 64)"),
        ("--unroll", "unroll", _positive, "trained steps in a sequence (default: 100)"),
        ("--burn-in", "burn_in", int, "steps before them that only warm the memory (default: 40)"),
        ("--queue", "queue", _positive, "unrolls in the queue (default: 100; impala: --batch)"),
        ("--replay-capacity", "replay.capacity", _positive, "sequences kept (default: 2000)"),
        ("--replay-minimum", "replay.minimum", _positive, "sequences before training starts (default: 200)"),
        ("--replay-ratio", "replay.ratio", float, "how often a sequence is trained on (default: 1.5)"),
        ("--discount", "discount", float, "default: 0.997"),
        ("--learning-rate", "learning_rate", float, "default: 0.00048"),
        ("--target-period", "r2d2.target_period", _positive, "updates between target networks (default: 2500)"),
        ("--entropy-cost", "impala.entropy_cost", float, "impala (default: 0.01)"),
        ("--hidden N", "network", _network, "width of every layer (default: 512)"),
    ),
    "limits and files": (
        ("--steps", "steps", int, "stop after this many agent steps"),
        ("--updates", "updates", int, "stop after this many updates"),
        ("--seconds", "seconds", float, "stop this many seconds after every actor has made a step"),
        ("--stop-at-return R", "stop_at_return", float,
         "stop when the last episodes of the less exploring half reach this mean return"),
        ("--directory", "directory", str, "folder of the checkpoint and of TensorBoard's files"),
        ("--resume", "resume", True, "continue from the checkpoint in --directory"),
        ("--checkpoint-seconds S", "checkpoint_seconds", float,
         "time between checkpoints (default: 300; there is always one at the end)"),
        ("--checkpoint-replay", "checkpoint_replay", True,
         "save the replay too, so that --resume does not have to fill it again (up to 2 GB for Pong)"),
        ("--tensorboard", "tensorboard", True, "write scalars to --directory"),
        ("--progress-seconds S", "progress_seconds", float, "time between progress lines (default: 2)"),
        ("--evaluate N", "evaluate", int, "play N greedy episodes and stop"),
    ),
    "Ray": (
        ("--ray GROUPS", "ray_groups", _positive,
         "place this many groups of --actors on a Ray cluster, each with its own inference"),
        ("--ray-address ADDRESS", "ray_address", str, "cluster to join (default: a local one)"),
        ("--ray-batch N", "ray_batch", _positive, "unrolls a Ray call carries (default: 8)"),
    ),
}  # fmt: skip
"""By group: flag, the setting in `Config`, what reads its value (its choices; True or False for a switch), and help."""


def parser() -> argparse.ArgumentParser:
    """The parser. What was not asked for is missing in its answer: `Config` has the defaults, which are SEED RL's where it has one."""
    top = argparse.ArgumentParser(
        prog="python -m cutaway_workloads.r2d2",
        description="Distributed R2D2 (or IMPALA) with central inference, in PyTorch.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,
    )
    for title, options in OPTIONS.items():
        group = top.add_argument_group(title)
        for words, name, kind, text in options:
            flag, _, shown = words.partition(" ")
            about: dict[str, Any] = {
                "type": kind,
                "metavar": shown or flag[2:].replace("-", "_").upper(),
            }
            if isinstance(kind, bool):
                about = {"action": "store_const", "const": kind}
            elif isinstance(kind, tuple):
                about = {"choices": kind}
            group.add_argument(flag, dest=name, help=text, **about)
    return top


def config_of(args: argparse.Namespace) -> Config:
    """The run a command line asks for.

    >>> config_of(parser().parse_args(["--actors", "8"])).inference_envs
    4
    """
    given = {
        name: value
        for name, value in vars(args).items()
        if name not in ("small", "evaluate")
    }
    algorithm = given.get("algorithm", "r2d2")
    config = _small(algorithm) if "small" in args else Config(algorithm=algorithm)
    for name, value in given.items():
        part, _, setting = name.rpartition(".")
        changed = (
            {part: replace(getattr(config, part), **{setting: value})}
            if part
            else {name: value}
        )
        config = replace(config, **changed)
    if config.algorithm == "impala" and "queue" not in given:
        config = replace(config, queue=config.batch)
    _check(config)
    return config


def _small(algorithm: str) -> Config:
    """Settings for tasks that a laptop learns within minutes."""
    network = NetworkConfig(64, 64, 64)
    if algorithm == "impala":
        return Config(
            algorithm="impala",
            unroll=20,
            batch=16,
            discount=0.98,
            learning_rate=2e-3,
            network=network,
        )
    replay = ReplayConfig(capacity=2000, minimum=100, ratio=4.0)
    return Config(
        unroll=20,
        burn_in=10,
        batch=32,
        discount=0.98,
        learning_rate=1e-3,
        network=network,
        replay=replay,
        r2d2=R2D2Config(n_step=3, target_period=100),
    )


def _check(config: Config) -> None:
    if config.emulate is not None and config.ray_groups:
        raise CutawayError("--emulate-device works on one machine: leave out --ray.")
    if config.emulate is not None and config.resume:
        raise CutawayError(
            "An emulated accelerator learns nothing to resume from: leave out --resume."
        )
    if config.burn_in < 0:
        raise CutawayError("--burn-in must not be negative: use 0 for none.")
    if config.replay.ratio <= 0:
        raise CutawayError("--replay-ratio must be above 0: SEED RL uses 1.5.")
