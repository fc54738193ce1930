"""tianshou: the trainer's steps are iterations, its test steps are evaluation and count no steps."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script

PROGRAM = """
import gymnasium as gym
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

def envs(): return DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(2)])

space = gym.spaces.Discrete(2)
policy = DiscreteQLearningPolicy(model=Net(state_shape=4, action_shape=2, hidden_sizes=[8]), action_space=space)
algorithm = DQN(policy=policy, optim=AdamOptimizerFactory(lr=1e-3))
collector = Collector(algorithm, envs(), VectorReplayBuffer(1000, 2))
collector.reset()
collector.collect(n_step=20)
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=collector, test_collector=Collector(algorithm, envs()), max_epochs=2, epoch_num_steps=40,
        collection_step_num_env_steps=10, test_step_num_episodes=2, batch_size=8,
        update_step_num_gradient_steps_per_sample=0.2, verbose=False, show_progress=False,
    )
)
# The last of these ends episodes one by one: fewer and fewer environments are stepped.
stats = collector.collect(n_episode=4)
open("steps", "w").write(str(stats.n_collected_steps))
"""


def test_a_dqn(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py")
    training_steps = 2 * 4
    assert (
        seen.iterations == 1 + training_steps
    )  # what is collected before them is the first
    assert seen.steps == 20 + 80 + int((tmp_path / "steps").read_text())
    assert (
        seen.operations["evaluation"] == 1 + 2
    )  # before the first epoch, and after each
    assert seen.operations["backpropagation"] == training_steps
    assert (
        seen.inside["inference", "replay"]
        == seen.operations["inference"]
        > (20 + 80) / 2
    )
    assert (
        seen.inside["replay", "backpropagation"] == training_steps * 2
    )  # two samples drawn for each
    assert not {name for name, around in seen.inside if around == "evaluation"}
