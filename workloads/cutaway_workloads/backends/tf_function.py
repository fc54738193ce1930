"""TensorFlow with tf.function: the eager agent, whose updates and policy are traced into graphs."""

from __future__ import annotations

import tensorflow as tf

from . import tf_eager
from .agent import Settings, Weights


class BackendAgent(tf_eager.BackendAgent):
    """The same methods, traced when they are first called."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        super().__init__(settings, weights)
        self.policy = tf.function(super().policy)  # type: ignore[method-assign]
        self.update_critics = tf.function(super().update_critics)  # type: ignore[method-assign]
        self.update_actor = tf.function(super().update_actor)  # type: ignore[method-assign]
        self.update_targets = tf.function(super().update_targets)  # type: ignore[method-assign]
