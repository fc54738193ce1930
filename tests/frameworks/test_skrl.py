"""skrl: the trainer's loop is seen through its agent; eval() is evaluation and counts no steps."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script

PROGRAM = """
import gymnasium as gym
import torch
from skrl.agents.torch.ddpg import DDPG, DDPG_CFG
from skrl.envs.wrappers.torch import wrap_env
from skrl.memories.torch import RandomMemory
from skrl.models.torch import DeterministicMixin, Model
from skrl.trainers.torch import SequentialTrainer
from torch import nn

class Network(DeterministicMixin, Model):
    def __init__(self, inputs, outputs):
        Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
        DeterministicMixin.__init__(self)
        self.net = nn.Linear(inputs, outputs)

class Actor(Network):
    def compute(self, inputs, role): return self.net(inputs["observations"]), {}

class Critic(Network):
    def compute(self, inputs, role):
        return self.net(torch.cat([inputs["observations"], inputs["taken_actions"]], dim=1)), {}

env = wrap_env(gym.make_vec("Pendulum-v1", num_envs=2, vectorization_mode="sync"))
models = {"policy": Actor(3, 1), "target_policy": Actor(3, 1), "critic": Critic(4, 1), "target_critic": Critic(4, 1)}
cfg = DDPG_CFG()
cfg.batch_size, cfg.learning_starts = 4, 10
cfg.experiment.write_interval, cfg.experiment.checkpoint_interval = 0, 15
agent = DDPG(
    models=models, memory=RandomMemory(memory_size=100, num_envs=2, device="cpu"), cfg=cfg,
    observation_space=env.observation_space, action_space=env.action_space, device="cpu",
)
trainer = SequentialTrainer(
    cfg={"timesteps": 20, "headless": True, "disable_progressbar": True}, env=env, agents=[agent]
)
trainer.train()
trainer.cfg.timesteps = 7
trainer.eval()
"""


def test_a_ddpg(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py")
    assert seen.steps == 20 * 2
    assert seen.operations["inference"] == 20
    assert seen.operations["backpropagation"] == 10
    assert (
        seen.iterations == 10
    )  # the first step begins one, and each step after an update
    assert seen.operations["replay"] == 20 + 10  # transitions stored, batches drawn
    assert seen.operations["checkpoint"] == 1
    assert seen.operations["evaluation"] == 1
    assert not {
        name for name, around in seen.inside if around in ("evaluation", "checkpoint")
    }
