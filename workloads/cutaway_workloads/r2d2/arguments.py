"""The command line of the trainer."""

from __future__ import annotations

import argparse
from dataclasses import replace

from cutaway import CutawayError

from .config import Config, EmulatedDevice, ImpalaConfig, NetworkConfig, R2D2Config, ReplayConfig

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


def parser() -> argparse.ArgumentParser:
    """The parser; defaults are SEED RL's where it has one."""
    c, n = Config(), NetworkConfig()
    top = argparse.ArgumentParser(
        prog="python -m cutaway_workloads.r2d2",
        description="Distributed R2D2 (or IMPALA) with central inference, in PyTorch.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = top.add_argument_group("what to train")
    what.add_argument("--env", default=c.env, help="environment, see below (default: %(default)s)")
    what.add_argument(
        "--algorithm", choices=("r2d2", "impala"), default=c.algorithm, help="default: %(default)s"
    )
    what.add_argument("--seed", type=int, default=c.seed, help="default: %(default)s")
    what.add_argument("--small", action="store_true", help="small network and short unrolls, for small tasks")

    how = top.add_argument_group("processes and devices")
    how.add_argument(
        "--actors", type=_positive, default=c.actors, help="actor processes (default: %(default)s)"
    )
    how.add_argument(
        "--envs-per-actor", type=_positive, default=1, help="stepped one after another (default: 1)"
    )
    how.add_argument(
        "--batch-rule",
        choices=("seed", "dynamic"),
        default=c.batch_rule,
        help="wait for a full inference batch, or not longer than --batch-timeout-us (default: seed)",
    )
    how.add_argument(
        "--inference-batch",
        type=int,
        default=0,
        metavar="N",
        help="observations in a full batch (default: half of all environments)",
    )
    how.add_argument(
        "--batch-timeout-us",
        type=float,
        default=c.batch_timeout_us,
        metavar="US",
        help="how long `dynamic` waits for more after the first request (default: 1000)",
    )
    how.add_argument(
        "--device", default=c.device, help="cpu, cuda or cuda:N; never yet run on a GPU (default: cpu)"
    )
    how.add_argument(
        "--threads",
        type=_positive,
        default=c.threads,
        help="PyTorch threads of the learner and of the inference server each (default: 1)",
    )
    how.add_argument(
        "--emulate-device",
        type=_emulated,
        metavar="A,B[,TRAIN]",
        help="an accelerator that sleeps A + B·n µs for n observations, TRAIN µs for an update",
    )
    how.add_argument("--no-train", action="store_true", help="actors and inference only; unrolls are dropped")

    learn = top.add_argument_group("learning")
    learn.add_argument("--batch", type=_positive, help="sequences in a training batch (default: 64)")
    learn.add_argument("--unroll", type=_positive, help="trained steps in a sequence (default: 100)")
    learn.add_argument(
        "--burn-in", type=int, help="steps before them that only warm the memory (default: 40)"
    )
    learn.add_argument("--queue", type=_positive, help="unrolls in the queue (default: 100; impala: --batch)")
    learn.add_argument("--replay-capacity", type=_positive, help="sequences kept (default: 2000)")
    learn.add_argument(
        "--replay-minimum", type=_positive, help="sequences before training starts (default: 200)"
    )
    learn.add_argument("--replay-ratio", type=float, help="how often a sequence is trained on (default: 1.5)")
    learn.add_argument("--discount", type=float, help=f"default: {c.discount}")
    learn.add_argument("--learning-rate", type=float, help=f"default: {c.learning_rate}")
    learn.add_argument(
        "--target-period", type=_positive, help="updates between target networks (default: 2500)"
    )
    learn.add_argument(
        "--entropy-cost", type=float, default=ImpalaConfig().entropy_cost, help="impala (default: 0.01)"
    )
    learn.add_argument(
        "--hidden", type=_positive, metavar="N", help=f"width of every layer (default: {n.lstm})"
    )

    when = top.add_argument_group("limits and files")
    when.add_argument("--steps", type=int, default=0, help="stop after so many agent steps")
    when.add_argument("--updates", type=int, default=0, help="stop after so many updates")
    when.add_argument(
        "--seconds", type=float, default=0.0, help="stop so many seconds after every actor has stepped"
    )
    when.add_argument(
        "--stop-at-return",
        type=float,
        metavar="R",
        help="stop when the last episodes of the less exploring half reach this mean return",
    )
    when.add_argument("--directory", default="", help="folder of the checkpoint and of TensorBoard's files")
    when.add_argument("--resume", action="store_true", help="go on from the checkpoint in --directory")
    when.add_argument(
        "--checkpoint-seconds",
        type=float,
        default=c.checkpoint_seconds,
        metavar="S",
        help="time between checkpoints (default: 300; there is always one at the end)",
    )
    when.add_argument(
        "--checkpoint-replay",
        action="store_true",
        help="keep the replay too, so that --resume need not fill it again; a Pong replay has up to 2 GB",
    )
    when.add_argument("--tensorboard", action="store_true", help="write scalars to --directory")
    when.add_argument(
        "--progress-seconds",
        type=float,
        default=c.progress_seconds,
        metavar="S",
        help="time between progress lines (default: 2)",
    )
    when.add_argument("--evaluate", type=int, default=0, metavar="N", help="play N greedy episodes and stop")

    ray = top.add_argument_group("Ray")
    ray.add_argument(
        "--ray",
        type=_positive,
        default=0,
        metavar="GROUPS",
        dest="ray_groups",
        help="place so many groups of --actors on a Ray cluster, each with its own inference",
    )
    ray.add_argument(
        "--ray-address", default="", metavar="ADDRESS", help="cluster to join (default: a local one)"
    )
    ray.add_argument(
        "--ray-batch",
        type=_positive,
        default=c.ray_batch,
        metavar="N",
        help="unrolls a Ray call carries (default: 8)",
    )
    return top


def config_of(args: argparse.Namespace) -> Config:
    """The run a command line asks for.

    >>> config_of(parser().parse_args(["--actors", "8"])).inference_envs
    4
    """
    base = _small(args.algorithm) if args.small else Config(algorithm=args.algorithm)
    same_name = (
        "env",
        "seed",
        "actors",
        "envs_per_actor",
        "batch_rule",
        "inference_batch",
        "batch_timeout_us",
        "device",
        "threads",
        "steps",
        "updates",
        "seconds",
        "stop_at_return",
        "directory",
        "resume",
        "checkpoint_seconds",
        "checkpoint_replay",
        "tensorboard",
        "progress_seconds",
        "ray_groups",
        "ray_address",
        "ray_batch",
    )
    given = {name: getattr(args, name) for name in same_name}
    asked = ("batch", "unroll", "burn_in", "discount", "learning_rate")
    given |= {name: getattr(args, name) for name in asked if getattr(args, name) is not None}
    config = replace(base, **given, train=not args.no_train, emulate=args.emulate_device)
    replay = {"capacity": args.replay_capacity, "minimum": args.replay_minimum, "ratio": args.replay_ratio}
    config = replace(
        config,
        queue=args.queue or (config.batch if config.algorithm == "impala" else base.queue),
        network=NetworkConfig(*[args.hidden] * 3) if args.hidden else base.network,
        replay=replace(base.replay, **{k: v for k, v in replay.items() if v is not None}),
        r2d2=replace(base.r2d2, target_period=args.target_period or base.r2d2.target_period),
        impala=replace(base.impala, entropy_cost=args.entropy_cost),
    )
    _check(config)
    return config


def _small(algorithm: str) -> Config:
    """Settings for tasks that a laptop learns within minutes."""
    network = NetworkConfig(64, 64, 64)
    if algorithm == "impala":
        return Config(
            algorithm="impala", unroll=20, batch=16, discount=0.98, learning_rate=2e-3, network=network
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
        raise CutawayError("An emulated accelerator learns nothing to resume from: leave out --resume.")
    if config.burn_in < 0:
        raise CutawayError("--burn-in must not be negative: use 0 for none.")
    if config.replay.ratio <= 0:
        raise CutawayError("--replay-ratio must be above 0: SEED RL uses 1.5.")


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
