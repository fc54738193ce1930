"""Plain TensorFlow and Keras loops without annotations; threads of TensorFlow that run Python now and then."""

from __future__ import annotations

from pathlib import Path

import pytest
from named import operations, shares
from recorded import notes, record, script

import cutaway

LOOP = """
    import gymnasium as gym, keras, numpy as np, tensorflow as tf

    actor = keras.Sequential([keras.layers.Dense(32, activation="tanh"), keras.layers.Dense(1, activation="tanh")])
    target = keras.models.clone_model(actor)
    optimizer = keras.optimizers.Adam(1e-3)
    env = gym.make("Pendulum-v1")
    state, _ = env.reset(seed=1)
    seen = np.zeros((60, 3), np.float32)
    {decorator}
    def update(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((actor(batch) - 0.9 * target(batch)) ** 2)
        gradient = tape.gradient(loss, actor.trainable_variables)
        optimizer.apply_gradients(zip(gradient, actor.trainable_variables))
    actor(seen[:1]); target(seen[:1]); optimizer.build(actor.trainable_variables)
    for number in range(60):
        action = np.squeeze(actor(state[None]).numpy(), 0) + 0.1 * np.random.randn(1)
        state, _, _, over, _ = env.step(np.clip(action, -1, 1).astype(np.float32))
        seen[number] = state
        if number >= 20:
            update(tf.convert_to_tensor(seen[np.random.randint(0, number, 16)]))
            for a, b in zip(target.trainable_variables, actor.trainable_variables): a.assign(0.99 * a + 0.01 * b)
"""


@pytest.mark.parametrize("decorator", ["", "@tf.function"])
def test_a_keras_loop(tmp_path: Path, decorator: str) -> None:
    script(tmp_path, LOOP.replace("{decorator}", decorator))
    (seen,) = record(tmp_path, "train.py")
    path = tmp_path / "run.cutaway"
    assert notes(path) == []
    assert seen.steps == 60
    named = operations(path)
    assert named["backpropagation"] == 40
    assert named["inference"] >= 60
    assert seen.iterations >= 39
    assert shares(path).get("", 0) < 10


def test_a_function_that_acts(tmp_path: Path) -> None:
    function = "{decorator}\n    def act(x): return tf.tanh(x @ weights)\n"
    acting = LOOP.replace("actor(state[None])", "act(state[None].astype(np.float32))")
    made = "    weights = tf.Variable(np.full((3, 1), 0.1, np.float32))\n    {decorator}\n    def update"
    program = acting.replace("    {decorator}\n    def update", f"    {function}{made}")
    script(tmp_path, program.replace("{decorator}", "@tf.function"))
    record(tmp_path, "train.py")
    path = tmp_path / "run.cutaway"
    assert notes(path) == []
    assert operations(path)["inference"] >= 60
    assert operations(path)["backpropagation"] == 40
    assert shares(path).get("", 0) < 10


SESSION = """
    import gymnasium as gym, numpy as np, tensorflow.compat.v1 as tf

    graph = tf.Graph()
    with graph.as_default():
        seen = tf.placeholder(tf.float32, (None, 3))
        weights, target = (tf.Variable(np.full((3, 1), 0.1, np.float32)) for _ in range(2))
        action = tf.tanh(seen @ weights)
        loss = tf.reduce_mean((action - 0.9 * tf.tanh(seen @ target)) ** 2)
        update = tf.train.AdamOptimizer(1e-3).minimize(loss, var_list=[weights])
        follow = target.assign(0.99 * target + 0.01 * weights)
        session = tf.Session()
        session.run(tf.global_variables_initializer())
    env = gym.make("Pendulum-v1")
    state, _ = env.reset(seed=1)
    stored = np.zeros((400, 3), np.float32)
    for number in range(400):
        state, *_ = env.step(session.run(action, {seen: state[None]})[0])
        stored[number] = state
        if number >= 20:
            session.run((loss, update), {seen: stored[np.random.randint(0, number, 16)]})
            session.run(follow)
"""


def test_a_session_acts_and_updates(tmp_path: Path) -> None:
    script(tmp_path, SESSION)
    (seen,) = record(tmp_path, "train.py")
    path = tmp_path / "run.cutaway"
    assert notes(path) == []
    assert (seen.role, seen.steps) == ("learner", 400)
    assert seen.iterations >= 379
    found = shares(path)
    assert found.get("", 0) < 10
    assert found["backpropagation"] > found["inference"] / 2 > 0


def test_a_thread_of_tensorflow_lives_only_while_it_runs_python(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
        import threading, time
        import tensorflow as tf

        threads = set()
        def python(x):
            threads.add(threading.get_native_id())
            return x + 1

        @tf.function
        def graph(x):
            for _ in tf.range(20):
                x = tf.ensure_shape(tf.py_function(python, [x], tf.float32), ())
            return x

        for _ in range(10):
            graph(tf.constant(0.0))
            time.sleep(0.1)
        assert threads != {threading.get_native_id()}, "TensorFlow ran all of it on the main thread"
        """,
    )
    record(tmp_path, "train.py")
    run = cutaway.open(tmp_path / "run.cutaway")
    others = [row for row in run.threads() if row["tid"] != run.processes()["pid"][0]]
    lent = [row for row in others if row["end_ns"] - row["start_ns"] > 500_000_000]
    assert lent, "a thread of TensorFlow came back to Python"
    assert all(
        row["traced_ns"] < 0.5 * (row["end_ns"] - row["start_ns"]) for row in lent
    )
