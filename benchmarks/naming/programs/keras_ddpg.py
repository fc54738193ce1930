"""DDPG on Pendulum as the examples of keras.io write it: Keras models, NumPy buffer, the update a tf.function."""

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf
from benchmarks.naming.truth import iteration, operation
from keras import layers

FRAMEWORK = "Keras"
ENVIRONMENT = "tensorflow"

STEPS, BATCH, CAPACITY, GAMMA, TAU = 700, 64, 50_000, 0.99, 0.005

tf.random.set_seed(1)
np.random.seed(1)
env = gym.make("Pendulum-v1")
num_states, num_actions = env.observation_space.shape[0], env.action_space.shape[0]
upper, lower = env.action_space.high[0], env.action_space.low[0]


class Buffer:
    def __init__(self):
        self.counter = 0
        self.states = np.zeros((CAPACITY, num_states))
        self.actions = np.zeros((CAPACITY, num_actions))
        self.rewards = np.zeros((CAPACITY, 1))
        self.next_states = np.zeros((CAPACITY, num_states))

    def record(self, state, action, reward, next_state):
        index = self.counter % CAPACITY
        self.states[index] = state
        self.actions[index] = action
        self.rewards[index] = reward
        self.next_states[index] = next_state
        self.counter += 1

    @tf.function
    def update(self, states, actions, rewards, next_states):
        with tf.GradientTape() as tape:
            target_actions = target_actor(next_states, training=True)
            y = rewards + GAMMA * target_critic(
                [next_states, target_actions], training=True
            )
            critic_loss = tf.math.reduce_mean(
                tf.math.square(y - critic([states, actions], training=True))
            )
        gradient = tape.gradient(critic_loss, critic.trainable_variables)
        critic_optimizer.apply(gradient, critic.trainable_variables)
        with tf.GradientTape() as tape:
            actor_loss = -tf.math.reduce_mean(
                critic([states, actor(states, training=True)], training=True)
            )
        gradient = tape.gradient(actor_loss, actor.trainable_variables)
        actor_optimizer.apply(gradient, actor.trainable_variables)

    def learn(self):
        with operation("backpropagation"):
            indices = np.random.choice(min(self.counter, CAPACITY), BATCH)
            states = tf.convert_to_tensor(self.states[indices])
            actions = tf.convert_to_tensor(self.actions[indices])
            rewards = tf.cast(tf.convert_to_tensor(self.rewards[indices]), "float32")
            next_states = tf.convert_to_tensor(self.next_states[indices])
            self.update(states, actions, rewards, next_states)


def update_target(target, original):
    weights, fresh = target.get_weights(), original.get_weights()
    for i in range(len(weights)):
        weights[i] = fresh[i] * TAU + weights[i] * (1 - TAU)
    target.set_weights(weights)


def get_actor():
    inputs = layers.Input(shape=(num_states,))
    out = layers.Dense(256, activation="relu")(inputs)
    out = layers.Dense(256, activation="relu")(out)
    out = layers.Dense(
        1,
        activation="tanh",
        kernel_initializer=keras.initializers.RandomUniform(-3e-3, 3e-3),
    )(out)
    return keras.Model(inputs, out * upper)


def get_critic():
    state_input = layers.Input(shape=(num_states,))
    state_out = layers.Dense(32, activation="relu")(
        layers.Dense(16, activation="relu")(state_input)
    )
    action_input = layers.Input(shape=(num_actions,))
    action_out = layers.Dense(32, activation="relu")(action_input)
    out = layers.Concatenate()([state_out, action_out])
    out = layers.Dense(256, activation="relu")(out)
    out = layers.Dense(256, activation="relu")(out)
    return keras.Model([state_input, action_input], layers.Dense(1)(out))


def policy(state):
    sampled = keras.ops.squeeze(actor(state)).numpy() + 0.2 * np.random.randn(1)
    return [np.squeeze(np.clip(sampled, lower, upper))]


with operation("inference"):  # building a model calls its layers
    actor, critic, target_actor, target_critic = (
        get_actor(),
        get_critic(),
        get_actor(),
        get_critic(),
    )
    target_actor.set_weights(actor.get_weights())
    target_critic.set_weights(critic.get_weights())
critic_optimizer, actor_optimizer = (
    keras.optimizers.Adam(0.002),
    keras.optimizers.Adam(0.001),
)
buffer = Buffer()
returns, episodic = [], 0.0
with operation("simulation"):
    state, _ = env.reset(seed=1)
for _ in range(STEPS):
    iteration()
    with operation("inference"):
        action = policy(keras.ops.expand_dims(keras.ops.convert_to_tensor(state), 0))
    with operation("simulation"):
        next_state, reward, terminated, truncated, _ = env.step(action)
    with operation("replay"):
        buffer.record(state, action, reward, next_state)
    episodic += reward
    buffer.learn()
    with operation("backpropagation"):
        update_target(target_actor, actor)
        update_target(target_critic, critic)
    state = next_state
    if terminated or truncated:
        returns.append(episodic)
        with operation("simulation"):
            state, _ = env.reset()
        episodic = 0.0
print(f"mean return of the last episodes: {np.mean(returns[-40:]):.0f}")
