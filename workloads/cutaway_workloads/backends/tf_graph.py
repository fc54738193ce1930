"""TensorFlow as it was before 2.0: one graph with placeholders, run by a session."""

from __future__ import annotations

from typing import Any

import tensorflow.compat.v1 as tf

from .agent import Agent, Batch, Floats, Layers, Settings, Weights


class BackendAgent(Agent):
    """Builds the graph once; every call is one `session.run`."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        super().__init__(settings)
        graph = tf.Graph()
        with graph.as_default():
            self._build(settings, weights)
            self.session = tf.Session(
                config=tf.ConfigProto(
                    intra_op_parallelism_threads=1, inter_op_parallelism_threads=1
                )
            )
            self.session.run(tf.global_variables_initializer())

    def _build(self, s: Settings, weights: Weights) -> None:
        sizes = (s.observation, s.action, 1, s.observation, 1, s.action)
        self.batch = Batch(*(tf.placeholder(s.dtype, (None, size)) for size in sizes))
        observation, action, reward, following, ended, noise = self.batch
        self.actor, target_actor = (
            _Network(weights.actor, tf.tanh),
            _Network(weights.actor, tf.tanh),
        )
        self.critics, target_critics = (
            [_Network(layers) for layers in weights.critics] for _ in range(2)
        )

        smoothing = tf.clip_by_value(
            s.smoothing * noise, -s.smoothing_limit, s.smoothing_limit
        )
        next_action = tf.clip_by_value(target_actor(following) + smoothing, -1, 1)
        inputs = tf.concat([following, next_action], 1)
        next_value = tf.reduce_min(
            tf.stack([critic(inputs) for critic in target_critics]), 0
        )
        target = tf.stop_gradient(reward + s.discount * (1 - ended) * next_value)
        inputs = tf.concat([observation, action], 1)
        self.critic_loss = tf.add_n(
            [tf.reduce_mean((critic(inputs) - target) ** 2) for critic in self.critics]
        )
        adam = {"learning_rate": s.learning_rate, "epsilon": s.epsilon}
        self.update_critics = tf.train.AdamOptimizer(**adam).minimize(
            self.critic_loss,
            var_list=[v for critic in self.critics for v in critic.variables],
        )

        self.policy = self.actor(observation)
        self.actor_loss = -tf.reduce_mean(
            self.critics[0](tf.concat([observation, self.policy], 1))
        )
        self.update_actor = tf.train.AdamOptimizer(**adam).minimize(
            self.actor_loss, var_list=self.actor.variables
        )

        pairs = zip(
            [target_actor, *target_critics], [self.actor, *self.critics], strict=True
        )
        self.update_targets = tf.group(
            *(
                old.assign(old + s.polyak * (new - old))
                for target, network in pairs
                for old, new in zip(target.variables, network.variables, strict=True)
            )
        )

    def act(self, observation: Floats) -> Floats:
        feed = {self.batch.observation: observation[None]}
        actions: Floats = self.session.run(self.policy, feed)
        action: Floats = actions[0]
        return action

    def update(self, batch: Batch, with_actor: bool) -> tuple[Any, Any]:
        feed = dict(zip(self.batch, batch, strict=True))
        critic_loss, _ = self.session.run((self.critic_loss, self.update_critics), feed)
        if not with_actor:
            return critic_loss, 0.0
        only = {self.batch.observation: batch.observation}
        actor_loss, _ = self.session.run((self.actor_loss, self.update_actor), only)
        self.session.run(self.update_targets)
        return critic_loss, actor_loss

    def weights(self) -> Weights:
        return Weights(
            *self.session.run(
                (self.actor.layers, [critic.layers for critic in self.critics])
            )
        )


class _Network:
    """Dense layers with ReLU between them."""

    def __init__(self, layers: Layers, last: Any = tf.identity) -> None:
        self.layers = [
            (tf.Variable(weight), tf.Variable(bias)) for weight, bias in layers
        ]
        self.variables = [variable for layer in self.layers for variable in layer]
        self._last = last

    def __call__(self, x: Any) -> Any:
        for weight, bias in self.layers[:-1]:
            x = tf.nn.relu(x @ weight + bias)
        weight, bias = self.layers[-1]
        return self._last(x @ weight + bias)
