"""TF-Agents, eagerly and with driver and agent as tf.functions: the same operations, iterations and steps."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

PROGRAM = """
import os, sys
os.environ["TF_USE_LEGACY_KERAS"] = "1"
import numpy as np, tensorflow as tf
from tf_agents.agents.dqn import dqn_agent
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import py_environment, tf_py_environment, wrappers
from tf_agents.eval import metric_utils
from tf_agents.metrics import py_metrics, tf_metrics
from tf_agents.networks import q_network
from tf_agents.policies import py_tf_eager_policy
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

class Line(py_environment.PyEnvironment):
    def action_spec(self): return array_spec.BoundedArraySpec((), np.int32, 0, 1)
    def observation_spec(self): return array_spec.ArraySpec((2,), np.float32)
    def _reset(self):
        self.n = 0
        return ts.restart(np.zeros(2, np.float32))
    def _step(self, action):
        self.n += 1
        seen = np.full(2, self.n, np.float32)
        return ts.termination(seen, 1.0) if self.n == 5 else ts.transition(seen, 1.0)

env = tf_py_environment.TFPyEnvironment(wrappers.TimeLimit(Line(), 100))
agent = dqn_agent.DqnAgent(
    env.time_step_spec(), env.action_spec(),
    q_network=q_network.QNetwork(env.observation_spec(), env.action_spec(), fc_layer_params=(8,)),
    optimizer=tf.compat.v1.train.AdamOptimizer(1e-3), train_step_counter=tf.Variable(0, dtype=tf.int64),
)
agent.initialize()
buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(agent.collect_data_spec, batch_size=1, max_length=100)
steps = tf_metrics.EnvironmentSteps()
driver = dynamic_step_driver.DynamicStepDriver(
    env, agent.collect_policy, observers=[buffer.add_batch, steps], num_steps=4
)
if sys.argv[1] == "graph":
    driver.run = common.function(driver.run)
    agent.train = common.function(agent.train)
driver.run()
data = iter(buffer.as_dataset(sample_batch_size=4, num_steps=2).prefetch(1))
time_step = None
for _ in range(5):
    time_step, _ = driver.run(time_step)
    agent.train(next(data)[0])
policy = py_tf_eager_policy.PyTFEagerPolicy(agent.policy)
metric_utils.compute([py_metrics.AverageReturnMetric()], wrappers.TimeLimit(Line(), 100), policy, num_episodes=2)
common.Checkpointer("saved", agent=agent).save(0)
open("steps", "w").write(str(int(steps.result())))
"""


@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_operations_iterations_and_steps(tmp_path: Path, mode: str) -> None:
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py", mode)
    assert (seen.role, seen.iterations) == (
        "learner",
        5,
    )  # filling the buffer belongs to the first
    assert seen.steps == int((tmp_path / "steps").read_text()) == 24
    assert seen.operations["backpropagation"] == 5
    assert seen.operations["evaluation"] == 1
    assert seen.operations["checkpoint"] == 1
    assert seen.operations["simulation"] >= 6
    assert seen.operations["replay"] >= 5
    if mode == "eager":
        assert seen.operations["inference"] == 24 + 4  # and when an episode has ended
    else:
        assert seen.operations["compile"] >= 2
