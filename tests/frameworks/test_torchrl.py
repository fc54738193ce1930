"""TorchRL: batches of a collector are iterations, validation counts no steps."""

from __future__ import annotations

from pathlib import Path

from recorded import one, record, script

HEAD = """
import torch
from tensordict.nn import TensorDictModule
from torch import nn
from torchrl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector
from torchrl.data import LazyTensorStorage, TensorDictReplayBuffer
from torchrl.envs import StepCounter, TransformedEnv
from torchrl.envs.libs.gym import GymEnv
from torchrl.modules import QValueActor
from torchrl.objectives import DQNLoss
from torchrl.trainers import LogValidationReward

def make_env(): return GymEnv("CartPole-v1", categorical_action_encoding=False)
def make_policy():
    return QValueActor(nn.Linear(4, 2), in_keys=["observation"], action_space="one-hot")
"""
SINGLE = """
env = make_env()
policy = make_policy()
collector = Collector(env, policy, frames_per_batch=20, total_frames=60)
buffer = TensorDictReplayBuffer(storage=LazyTensorStorage(100), batch_size=8)
loss_module = DQNLoss(policy, action_space="one-hot", delay_value=False)
optimizer = torch.optim.Adam(policy.parameters())
validate = LogValidationReward(
    record_interval=1, record_frames=5, frame_skip=1, policy_exploration=policy, environment=TransformedEnv(make_env(), StepCounter())
)
for data in collector:
    buffer.extend(data.reshape(-1))
    loss = loss_module(buffer.sample())["loss"]
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    collector.update_policy_weights_()
    validate(data)
collector.shutdown()
"""
WORKERS = """
for cls in (MultiSyncCollector, MultiAsyncCollector):
    assert cls.iterator.__wrapped__
"""


def test_a_dqn_in_one_process(tmp_path: Path) -> None:
    script(tmp_path, HEAD + SINGLE)
    seen = one(record(tmp_path, "train.py"), name="train")
    assert seen.iterations == 3
    assert seen.steps == 60
    assert seen.inside["simulation", "replay"] >= 60
    assert seen.inside["inference", "replay"] == 60
    assert (
        seen.operations["replay"] == 3 + 3 + 3
    )  # rollouts, what extends the buffer, batches drawn
    assert seen.operations["sync"] == 3
    assert seen.operations["evaluation"] == 3
    assert not {name for name, around in seen.inside if around == "evaluation"}


def test_collectors_with_workers_are_covered(tmp_path: Path) -> None:
    """They do not start on every machine; that items of generators are named is tested in test_entry_points.py."""
    script(tmp_path, HEAD + WORKERS)
    record(tmp_path, "train.py")
