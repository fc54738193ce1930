"""PPO on CartPole with RLlib's new API stack: two env runners in processes of their own."""

import ray
from benchmarks.naming.truth import annotate, iterations
from ray.rllib.algorithms.ppo import PPO, PPOConfig

FRAMEWORK = "RLlib"


def annotate_all():
    """In the driver and, by Ray's setup hook, in every worker."""
    from ray.rllib.algorithms.ppo import ppo
    from ray.rllib.connectors.env_to_module import EnvToModulePipeline
    from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline
    from ray.rllib.core.learner.learner_group import LearnerGroup
    from ray.rllib.core.rl_module.torch import TorchRLModule
    from ray.rllib.env.env_runner_group import EnvRunnerGroup
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    annotate(SingleAgentEnvRunner, "sample", "simulation")
    annotate(SingleAgentEnvRunner, "set_state", "sync")
    annotate(TorchRLModule, "forward_exploration", "inference")
    annotate(EnvToModulePipeline, "__call__", "inference")
    annotate(ModuleToEnvPipeline, "__call__", "inference")
    annotate(ppo, "synchronous_parallel_sample", "simulation")
    annotate(LearnerGroup, "update", "backpropagation")
    annotate(EnvRunnerGroup, "sync_weights", "sync")
    annotate(EnvRunnerGroup, "sync_env_runner_states", "sync")


annotate_all()
iterations(PPO, "train")
ray.init(
    "local",
    num_cpus=3,
    include_dashboard=False,
    log_to_driver=False,
    runtime_env={"worker_process_setup_hook": annotate_all},
)
config = (
    PPOConfig()
    .environment("CartPole-v1")
    .env_runners(num_env_runners=2)
    .training(train_batch_size_per_learner=1_000, num_epochs=4)
)
algorithm = config.build_algo()
for _ in range(8):
    algorithm.train()
algorithm.stop()
ray.shutdown()
