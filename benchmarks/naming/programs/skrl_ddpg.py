"""DDPG on Pendulum with skrl: models by its mixins, a sequential trainer, an evaluation at the end."""

import gymnasium as gym
import torch
from benchmarks.naming.truth import annotate, iterations
from skrl.agents.torch.ddpg import DDPG, DDPG_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, Model
from skrl.resources.noises.torch import OrnsteinUhlenbeckNoise
from skrl.trainers.torch import SequentialTrainer
from skrl.utils import set_seed
from torch import nn

FRAMEWORK = "skrl"
ENVIRONMENT = "frameworks"


class Actor(DeterministicMixin, Model):
    def __init__(self, observation_space, action_space, device):
        Model.__init__(
            self,
            observation_space=observation_space,
            action_space=action_space,
            device=device,
        )
        DeterministicMixin.__init__(self)
        self.net = nn.Sequential(
            nn.Linear(self.num_observations, 400),
            nn.ReLU(),
            nn.Linear(400, 300),
            nn.ReLU(),
            nn.Linear(300, 1),
        )

    def compute(self, inputs, role):
        return 2 * torch.tanh(self.net(inputs["observations"])), {}


class Critic(DeterministicMixin, Model):
    def __init__(self, observation_space, action_space, device):
        Model.__init__(
            self,
            observation_space=observation_space,
            action_space=action_space,
            device=device,
        )
        DeterministicMixin.__init__(self)
        inputs = self.num_observations + self.num_actions
        self.net = nn.Sequential(
            nn.Linear(inputs, 400),
            nn.ReLU(),
            nn.Linear(400, 300),
            nn.ReLU(),
            nn.Linear(300, 1),
        )

    def compute(self, inputs, role):
        return self.net(
            torch.cat([inputs["observations"], inputs["taken_actions"]], dim=1)
        ), {}


set_seed(1)
env = wrap_env(gym.make_vec("Pendulum-v1", num_envs=4, vectorization_mode="sync"))
memory = RandomMemory(
    memory_size=10_000, num_envs=env.num_envs, device=env.device, replacement=False
)
spaces = (env.observation_space, env.action_space, env.device)
models = {
    "policy": Actor(*spaces),
    "target_policy": Actor(*spaces),
    "critic": Critic(*spaces),
    "target_critic": Critic(*spaces),
}
for model in models.values():
    model.init_parameters(method_name="normal_", mean=0.0, std=0.1)

cfg = DDPG_CFG()
cfg.batch_size = 100
cfg.random_timesteps = 50
cfg.learning_starts = 50
cfg.exploration_noise = OrnsteinUhlenbeckNoise
cfg.exploration_noise_kwargs = {
    "theta": 0.15,
    "sigma": 0.1,
    "base_scale": 1.0,
    "device": env.device,
}
cfg.experiment.write_interval = 0
cfg.experiment.checkpoint_interval = 400
agent = DDPG(
    models=models,
    memory=memory,
    cfg=cfg,
    observation_space=env.observation_space,
    action_space=env.action_space,
    device=env.device,
)

annotate(DDPG, "act", "inference")
annotate(type(env), "step", "simulation")
annotate(type(env), "reset", "simulation")
annotate(DDPG, "record_transition", "replay")
annotate(RandomMemory, "sample", "replay")
annotate(DDPG, "update", "backpropagation")
annotate(DDPG, "write_checkpoint", "checkpoint")
annotate(SequentialTrainer, "eval", "evaluation")
iterations(DDPG, "update")

trainer = SequentialTrainer(
    cfg={"timesteps": 1_000, "headless": True, "disable_progressbar": True},
    env=env,
    agents=[agent],
)
trainer.train()
trainer.cfg.timesteps = 200
trainer.eval()
