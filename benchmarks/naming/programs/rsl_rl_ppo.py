"""PPO of rsl_rl in a world of torch tensors, as Isaac Lab, MuJoCo Playground and Genesis bring one."""

import torch
from benchmarks.naming.truth import annotate, iterations
from rsl_rl.algorithms import PPO
from rsl_rl.env import VecEnv
from rsl_rl.runners import OnPolicyRunner
from tensordict import TensorDict

FRAMEWORK = "rsl_rl"
ENVIRONMENT = "strangers"

NETWORK = {"class_name": "MLPModel", "hidden_dims": [64, 64], "activation": "elu"}
CONFIG = {
    "num_steps_per_env": 24,
    "save_interval": 50,
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {
        **NETWORK,
        "distribution_cfg": {
            "class_name": "GaussianDistribution",
            "init_std": 1.0,
            "std_type": "scalar",
        },
    },
    "critic": NETWORK,
    "algorithm": {"class_name": "PPO", "num_learning_epochs": 5, "num_mini_batches": 4},
}


class World(VecEnv):
    """256 points that a linear map and the actions push around."""

    def __init__(self):
        self.num_envs, self.num_actions, self.max_episode_length = 256, 4, 200
        self.device, self.cfg = "cpu", {}
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long)
        self.state = torch.zeros(self.num_envs, 24)
        self.map, self.push = torch.randn(24, 24) * 0.1, torch.randn(4, 24)

    def get_observations(self):
        return TensorDict({"policy": self.state.clone()}, batch_size=[self.num_envs])

    def step(self, actions):
        for _ in range(16):
            self.state = torch.tanh(
                self.state + self.state @ self.map + actions @ self.push * 0.1
            )
        self.episode_length_buf += 1
        over = self.episode_length_buf >= self.max_episode_length
        self.state[over] = 0
        self.episode_length_buf[over] = 0
        rewards = -self.state.square().sum(-1)
        return self.get_observations(), rewards, over.long(), {"time_outs": over}


annotate(World, "step", "simulation")
annotate(PPO, "act", "inference")
annotate(PPO, "process_env_step", "replay")
annotate(PPO, "compute_returns", "backpropagation")
annotate(PPO, "update", "backpropagation")
iterations(PPO, "update")
torch.manual_seed(1)
torch.set_num_threads(1)
OnPolicyRunner(World(), CONFIG, log_dir=None).learn(60)
