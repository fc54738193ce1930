"""TD3 or DDPG of TF-Agents, eager or with its driver and agent as tf.functions: `python -m studies.survey.programs.tf_agents eager`."""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ["TF_USE_LEGACY_KERAS"] = "1"

import gymnasium
import numpy as np
import tensorflow as tf
from tf_agents.agents.ddpg import actor_network, critic_network, ddpg_agent
from tf_agents.agents.td3 import td3_agent
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import py_environment, tf_py_environment
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


class Gymnasium(py_environment.PyEnvironment):  # type: ignore[misc]
    """A gymnasium environment for TF-Agents, whose own adapter knows only the old gym."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._env: Any = gymnasium.make(name)

    def action_spec(self) -> Any:
        space = self._env.action_space
        return array_spec.BoundedArraySpec(
            space.shape, np.float32, space.low, space.high
        )

    def observation_spec(self) -> Any:
        return array_spec.ArraySpec(self._env.observation_space.shape, np.float32)

    def _reset(self) -> Any:
        return ts.restart(self._env.reset()[0].astype(np.float32))

    def _step(self, action: Any) -> Any:
        if self._current_time_step is None or self._current_time_step.is_last():
            return self.reset()
        observation, reward, ended, cut, _ = self._env.step(action)
        seen = observation.astype(np.float32)
        if ended:
            return ts.termination(seen, reward)
        return ts.truncation(seen, reward) if cut else ts.transition(seen, reward)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mode", choices=("eager", "function"))
    parser.add_argument("--algorithm", choices=("td3", "ddpg"), default="td3")
    parser.add_argument("--steps", type=int, default=5000, help="after 100 random ones")
    args = parser.parse_args()

    env = tf_py_environment.TFPyEnvironment(Gymnasium("Walker2d-v5"))
    sizes = (400, 300)
    kind: Any = td3_agent.Td3Agent if args.algorithm == "td3" else ddpg_agent.DdpgAgent
    agent = kind(
        env.time_step_spec(),
        env.action_spec(),
        actor_network.ActorNetwork(
            env.observation_spec(), env.action_spec(), fc_layer_params=sizes
        ),
        critic_network.CriticNetwork(
            (env.observation_spec(), env.action_spec()), joint_fc_layer_params=sizes
        ),
        tf.compat.v1.train.AdamOptimizer(1e-3),
        tf.compat.v1.train.AdamOptimizer(1e-3),
        target_update_tau=0.005,
        target_update_period=2 if args.algorithm == "td3" else 1,
        gamma=0.99,
        train_step_counter=tf.Variable(0, dtype=tf.int64),
    )
    agent.initialize()
    buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
        agent.collect_data_spec, batch_size=1, max_length=100_000
    )

    def driver(steps: int) -> Any:
        return dynamic_step_driver.DynamicStepDriver(
            env, agent.collect_policy, observers=[buffer.add_batch], num_steps=steps
        )

    collect = driver(1)
    if args.mode == "function":
        collect.run = common.function(collect.run)
        agent.train = common.function(agent.train)
    driver(100).run()
    batches = iter(buffer.as_dataset(sample_batch_size=100, num_steps=2).prefetch(3))
    time_step = None
    state = agent.collect_policy.get_initial_state(env.batch_size)
    for _ in range(args.steps):
        time_step, state = collect.run(time_step=time_step, policy_state=state)
        experience, _ = next(batches)
        agent.train(experience)


if __name__ == "__main__":
    main()
