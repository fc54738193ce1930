"""TensorFlow, eager: Keras models and optimizers, step by step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from .agent import Agent, Batch, Floats, Layers, Settings, Weights

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)


class BackendAgent(Agent):
    """Models, optimizers and gradient tapes."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        super().__init__(settings)
        self.actor, self.target_actor = (
            _network(weights.actor, settings, "tanh") for _ in range(2)
        )
        self.critics, self.target_critics = (
            [_network(layers, settings) for layers in weights.critics] for _ in range(2)
        )
        self.actor_variables = self.actor.trainable_variables
        self.critic_variables = [
            v for critic in self.critics for v in critic.trainable_variables
        ]
        self.actor_optimizer, self.critic_optimizer = (
            tf.keras.optimizers.Adam(settings.learning_rate, epsilon=settings.epsilon)
            for _ in range(2)
        )
        self.actor_optimizer.build(self.actor_variables)
        self.critic_optimizer.build(self.critic_variables)

    def act(self, observation: Floats) -> Floats:
        return self.policy(tf.constant(observation[None])).numpy()[0]  # type: ignore[no-any-return]

    def policy(self, observation: Any) -> Any:
        return self.actor(observation)

    def update(self, batch: Batch, with_actor: bool) -> tuple[Any, Any]:
        tensors = tuple(tf.constant(column) for column in batch)
        critic_loss = self.update_critics(*tensors)
        if not with_actor:
            return critic_loss, 0.0
        actor_loss = self.update_actor(tensors[0])
        self.update_targets()
        return critic_loss, actor_loss

    def update_critics(
        self,
        observation: Any,
        action: Any,
        reward: Any,
        following: Any,
        ended: Any,
        noise: Any,
    ) -> Any:
        s = self.settings
        smoothing = tf.clip_by_value(
            s.smoothing * noise, -s.smoothing_limit, s.smoothing_limit
        )
        next_action = tf.clip_by_value(self.target_actor(following) + smoothing, -1, 1)
        inputs = tf.concat([following, next_action], 1)
        next_value = tf.reduce_min(
            tf.stack([critic(inputs) for critic in self.target_critics]), 0
        )
        target = reward + s.discount * (1 - ended) * next_value
        with tf.GradientTape() as tape:
            inputs = tf.concat([observation, action], 1)
            loss = tf.add_n(
                [
                    tf.reduce_mean((critic(inputs) - target) ** 2)
                    for critic in self.critics
                ]
            )
        gradients = tape.gradient(loss, self.critic_variables)
        self.critic_optimizer.apply_gradients(
            zip(gradients, self.critic_variables, strict=True)
        )
        return loss

    def update_actor(self, observation: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(
                self.critics[0](tf.concat([observation, self.actor(observation)], 1))
            )
        gradients = tape.gradient(loss, self.actor_variables)
        self.actor_optimizer.apply_gradients(
            zip(gradients, self.actor_variables, strict=True)
        )
        return loss

    def update_targets(self) -> None:
        for target, network in zip([self.target_actor, *self.target_critics], [self.actor, *self.critics], strict=True):  # fmt: skip
            for old, new in zip(
                target.trainable_variables, network.trainable_variables, strict=True
            ):
                old.assign(old + self.settings.polyak * (new - old))

    def weights(self) -> Weights:
        return Weights(
            _layers(self.actor), [_layers(critic) for critic in self.critics]
        )


def _network(layers: Layers, settings: Settings, last: str | None = None) -> Any:
    sizes = [bias.shape[0] for _, bias in layers]
    names = ["relu"] * (len(layers) - 1) + [last]
    dense = [
        tf.keras.layers.Dense(n, activation=f, dtype=settings.dtype)
        for n, f in zip(sizes, names, strict=True)
    ]
    model = tf.keras.Sequential(dense)
    model.build((None, layers[0][0].shape[0]))
    model.set_weights([value for layer in layers for value in layer])
    return model


def _layers(model: Any) -> Layers:
    values = model.get_weights()
    return list(zip(values[::2], values[1::2], strict=True))
