"""TD3 on Pendulum as the examples of TF-Agents write it: drivers, a replay buffer as a dataset, agents, all eager."""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"
import gymnasium
import numpy as np
import tensorflow as tf
from benchmarks.naming.truth import annotate, iteration, operation
from tf_agents.agents.ddpg import actor_network, critic_network
from tf_agents.agents.td3 import td3_agent
from tf_agents.drivers import dynamic_step_driver
from tf_agents.environments import py_environment, tf_py_environment
from tf_agents.eval import metric_utils
from tf_agents.metrics import tf_metrics
from tf_agents.policies import tf_policy
from tf_agents.replay_buffers import tf_uniform_replay_buffer
from tf_agents.specs import array_spec
from tf_agents.trajectories import time_step as ts
from tf_agents.utils import common

FRAMEWORK = "TF-Agents, eager"
ENVIRONMENT = "tensorflow"

USE_TF_FUNCTIONS = os.environ.get("USE_TF_FUNCTIONS") == "1"
ITERATIONS, COLLECT, TRAIN, BATCH = (
    (150, 1, 1, 64) if not USE_TF_FUNCTIONS else (1500, 1, 1, 64)
)


class Gymnasium(py_environment.PyEnvironment):
    """TF-Agents knows only the old gym."""

    def __init__(self, name):
        self.env = gymnasium.make(name)
        space, actions = self.env.observation_space, self.env.action_space
        self._observations = array_spec.BoundedArraySpec(
            space.shape, np.float32, space.low, space.high
        )
        self._actions = array_spec.BoundedArraySpec(
            actions.shape, np.float32, actions.low, actions.high
        )
        super().__init__()

    def observation_spec(self):
        return self._observations

    def action_spec(self):
        return self._actions

    def _reset(self):
        with operation("simulation"):
            observation, _ = self.env.reset(seed=1)
            return ts.restart(observation.astype(np.float32))

    def _step(self, action):
        if self.current_time_step().is_last():
            return self.reset()
        with operation("simulation"):
            observation, reward, terminated, truncated, _ = self.env.step(action)
            observation, reward = observation.astype(np.float32), np.float32(reward)
            if terminated or truncated:
                return ts.termination(observation, reward)
            return ts.transition(observation, reward)


tf.random.set_seed(1)
if not USE_TF_FUNCTIONS:  # under a tf.function these run only while it is traced
    annotate(tf_py_environment.TFPyEnvironment, "step", "simulation")
    annotate(tf_py_environment.TFPyEnvironment, "reset", "simulation")
    annotate(tf_policy.TFPolicy, "action", "inference")
    annotate(tf_uniform_replay_buffer.TFUniformReplayBuffer, "add_batch", "replay")
tf_env = tf_py_environment.TFPyEnvironment(Gymnasium("Pendulum-v1"))
eval_env = tf_py_environment.TFPyEnvironment(Gymnasium("Pendulum-v1"))
spec, actions = tf_env.time_step_spec(), tf_env.action_spec()
agent = td3_agent.Td3Agent(
    spec,
    actions,
    actor_network=actor_network.ActorNetwork(
        spec.observation, actions, fc_layer_params=(128, 128)
    ),
    critic_network=critic_network.CriticNetwork(
        (spec.observation, actions), joint_fc_layer_params=(128, 128)
    ),
    actor_optimizer=tf.compat.v1.train.AdamOptimizer(1e-4),
    critic_optimizer=tf.compat.v1.train.AdamOptimizer(1e-3),
    target_update_tau=0.05,
    target_update_period=5,
    td_errors_loss_fn=tf.compat.v1.losses.huber_loss,
    gamma=0.995,
)
agent.initialize()
buffer = tf_uniform_replay_buffer.TFUniformReplayBuffer(
    agent.collect_data_spec, batch_size=1, max_length=10_000
)
observers = [buffer.add_batch, tf_metrics.EnvironmentSteps()]
initial = dynamic_step_driver.DynamicStepDriver(
    tf_env, agent.collect_policy, observers=observers, num_steps=100
)
collect = dynamic_step_driver.DynamicStepDriver(
    tf_env, agent.collect_policy, observers=observers, num_steps=COLLECT
)
if USE_TF_FUNCTIONS:
    initial.run = common.function(initial.run)
    collect.run = common.function(collect.run)
    agent.train = common.function(agent.train)


def evaluate():
    with operation("evaluation"):
        metrics = [tf_metrics.AverageReturnMetric(buffer_size=1)]
        metric_utils.eager_compute(
            metrics,
            eval_env,
            agent.policy,
            num_episodes=1,
            use_function=USE_TF_FUNCTIONS,
        )


with operation("simulation"):
    initial.run()
dataset = buffer.as_dataset(
    num_parallel_calls=1, sample_batch_size=BATCH, num_steps=2
).prefetch(3)
iterator = iter(dataset)
time_step = None
policy_state = agent.collect_policy.get_initial_state(tf_env.batch_size)
for number in range(ITERATIONS):
    iteration()
    # The environment, the policy and the buffer are parts of one graph, which nobody can look into from outside.
    with operation("simulation"):
        time_step, policy_state = collect.run(
            time_step=time_step, policy_state=policy_state
        )
    for _ in range(TRAIN):
        with operation("replay"):
            experience, _ = next(iterator)
        with operation("backpropagation"):
            loss = agent.train(experience)
    if number == ITERATIONS // 2:
        evaluate()
print(f"loss {float(loss.loss):.2f}")
