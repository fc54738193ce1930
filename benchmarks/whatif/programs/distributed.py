"""Programs whose workers are made by a framework: RLlib's env runners, TorchRL's collectors, self-play with a pool of players."""

from __future__ import annotations

import importlib
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import torch

import cutaway
from benchmarks.whatif.programs.common import Pace, World, one_thread


def rllib(
    seconds: float, runners: int = 1, units: int = 8, epochs: int = 2
) -> tuple[float, float]:
    """PPO of RLlib: a batch of 256 steps is divided among the env runners."""
    ray: Any = importlib.import_module("ray")
    ppo: Any = importlib.import_module("ray.rllib.algorithms.ppo")
    one_thread()
    here = str(Path(__file__).resolve().parents[3])
    variables = {"PYTHONPATH": here, "OMP_NUM_THREADS": "1"}
    ray.init(
        "local",
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": variables},
    )
    ray.tune.register_env("world", partial(_world, units))
    config = (
        ppo.PPOConfig()
        .environment("world", disable_env_checking=True)
        .env_runners(num_env_runners=runners)
        .rl_module(model_config={"fcnet_hiddens": [64, 64]})
        .training(
            train_batch_size_per_learner=256, minibatch_size=64, num_epochs=epochs
        )
    )
    algorithm = config.build_algo()
    pace, goes_on = Pace(seconds), True
    while goes_on:
        algorithm.train()
        goes_on = pace.tick(256)
    algorithm.stop()
    ray.shutdown()
    return pace.rates


def _world(units: int, config: Any) -> World:
    cutaway.layer("zlib", "simulator")
    return World(units)


def torchrl(
    seconds: float, workers: int = 1, units: int = 8, updates: int = 8
) -> tuple[float, float]:
    """A loop over TorchRL's synchronous collectors: 256 steps are divided among them, then the policy is updated."""
    nn: Any = importlib.import_module("tensordict.nn")
    collectors: Any = importlib.import_module("torchrl.collectors")
    one_thread()
    net = torch.nn.Sequential(
        torch.nn.Linear(20, 64),
        torch.nn.Tanh(),
        torch.nn.Linear(64, 2),
        torch.nn.Softmax(-1),
    )
    policy = nn.TensorDictModule(net, in_keys=["observation"], out_keys=["action"])
    optimizer = torch.optim.Adam(net.parameters())
    collector = collectors.MultiSyncCollector(
        [partial(_gym, units)] * workers, policy, frames_per_batch=256, total_frames=-1, num_threads=1, num_sub_threads=1
    )  # fmt: skip
    pace = Pace(seconds)
    for batch in collector:
        seen = batch["observation"].reshape(-1, 20)
        with cutaway.operation("backpropagation"):
            for _ in range(updates):
                loss = net(seen).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
        collector.update_policy_weights_()
        if not pace.tick(256):
            break
    collector.shutdown()
    return pace.rates


def _gym(units: int) -> Any:
    gym: Any = importlib.import_module("torchrl.envs.libs.gym")
    cutaway.layer("zlib", "simulator")
    torch.set_num_threads(1)
    return gym.GymWrapper(World(units))


def selfplay(
    seconds: float, workers: int = 1, server: int = 0, updates: int = 10, games: int = 4
) -> tuple[float, float]:
    """Generations of self-play on a small board, with a network for each worker or one server. Players keep the first network: the games of
    another one are of another length."""
    from cutaway_workloads.selfplay.network import Examples, train
    from cutaway_workloads.selfplay.workers import Config, Pool

    config = Config(
        size=5,
        komi=0.5,
        workers=workers,
        simulations=8,
        channels=16,
        blocks=1,
        server=bool(server),
    )
    torch.manual_seed(1)
    network = config.network()
    examples = Examples(config.board, 2000, 1)
    pool = Pool(config)
    pace, goes_on = Pace(2 * seconds), True
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "first.pt"
        torch.save(network.state_dict(), first)
        while goes_on:
            moves = 0
            with cutaway.phase("selfplay"):
                for game in pool.play("selfplay", games, {"best": first}):
                    examples.add(*game)
                    moves += len(game[0])
            train(network, examples, updates, 64)
            cutaway.iteration()
            goes_on = pace.tick(moves)
    pool.close()
    return pace.rates
