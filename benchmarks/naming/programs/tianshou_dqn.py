"""DQN on CartPole with tianshou: its collector, its trainer, a test after each epoch."""

import gymnasium as gym
import torch
from benchmarks.naming.truth import annotate, iterations
from tianshou.algorithm import DQN
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.trainer import OffPolicyTrainer, OffPolicyTrainerParams
from tianshou.utils.net.common import Net

FRAMEWORK = "tianshou"
ENVIRONMENT = "frameworks"

# What collecting is beside acting and stepping: making batches of transitions, storing and checking them.
annotate(OffPolicyTrainer, "_collect_training_data", "replay")
annotate(Collector, "_compute_action_policy_hidden", "inference")
annotate(DummyVectorEnv, "step", "simulation")
annotate(DummyVectorEnv, "reset", "simulation")
annotate(OffPolicyTrainer, "_update_step", "backpropagation")
annotate(VectorReplayBuffer, "sample", "replay")
annotate(OffPolicyTrainer, "_test_step", "evaluation")
iterations(OffPolicyTrainer, "_training_step")

torch.manual_seed(1)
env = gym.make("CartPole-v1")
train_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(4)])
test_envs = DummyVectorEnv([lambda: gym.make("CartPole-v1") for _ in range(4)])
train_envs.seed(1)
test_envs.seed(2)

net = Net(
    state_shape=env.observation_space.shape,
    action_shape=env.action_space.n,
    hidden_sizes=[128, 128],
)
policy = DiscreteQLearningPolicy(
    model=net, action_space=env.action_space, eps_training=0.1, eps_inference=0.05
)
algorithm = DQN(
    policy=policy,
    optim=AdamOptimizerFactory(lr=1e-3),
    gamma=0.9,
    target_update_freq=320,
)
train_collector = Collector(
    algorithm, train_envs, VectorReplayBuffer(20_000, 4), exploration_noise=True
)
test_collector = Collector(algorithm, test_envs)

train_collector.reset()
train_collector.collect(n_step=256)
algorithm.run_training(
    OffPolicyTrainerParams(
        training_collector=train_collector,
        test_collector=test_collector,
        max_epochs=2,
        epoch_num_steps=2_000,
        collection_step_num_env_steps=16,
        test_step_num_episodes=8,
        batch_size=64,
        update_step_num_gradient_steps_per_sample=0.125,
        verbose=False,
        show_progress=False,
    )
)
