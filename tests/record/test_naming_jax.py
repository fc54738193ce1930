"""JAX programs without annotations: what a jitted function holds says what it is for."""

from __future__ import annotations

import json
from pathlib import Path

from named import operations, shares
from recorded import cutaway, notes, record, script

import cutaway as cw

LOOP = """
    import gymnasium as gym, jax, jax.numpy as jnp, numpy as np

    weights = {"a": jnp.zeros((4, 256)), "b": jnp.zeros((256, 2))}
    def q_values(w, x): return jnp.tanh(x @ w["a"]) @ w["b"]
    act = jax.jit(lambda w, x: q_values(w, x).argmax(-1))

    @jax.jit
    def learn(w, x):
        gradient = jax.grad(lambda w: (q_values(w, x) ** 2).mean())(w)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, gradient)

    env = gym.make("CartPole-v1")
    x, _ = env.reset(seed=0)
    for number in range(600):
        x, _, over, _, _ = env.step(int(act(weights, x[None])[0]))
        if over: x, _ = env.reset()
        if number % 5 == 4:
            weights = learn(weights, jnp.zeros((512, 4)) + x)
"""

PROGRAM = """
    import jax, jax.numpy as jnp

    def step(state, action): return state + 0.1 * action - 0.01 * state

    def update(carry, _):
        weights, state, key = carry
        def collect(inner, _):
            state, key = inner
            key, noise = jax.random.split(key)
            action = jnp.tanh(state @ weights) + 0.1 * jax.random.normal(noise, state.shape)
            return (step(state, action), key), state
        (state, key), seen = jax.lax.scan(collect, (state, key), None, 8)
        def epoch(weights, _):
            return weights - 0.01 * jax.grad(lambda w: ((seen @ w) ** 2).mean())(weights), None
        weights, _ = jax.lax.scan(epoch, weights, None, 2)
        return (weights, state, key), None

    @jax.jit
    def train(key):
        return jax.lax.scan(update, (jnp.eye(64), jnp.ones((256, 64)), key), None, 200)[0][0]

    for seed in range(3): jax.block_until_ready(train(jax.random.PRNGKey(seed)))
"""


def test_a_jitted_update_a_jitted_policy_and_compiling_are_told_apart(
    tmp_path: Path,
) -> None:
    script(tmp_path, LOOP)
    (seen,) = record(tmp_path, "train.py")
    assert notes(tmp_path / "run.cutaway") == []
    assert seen.operations["compile"] > 3
    named = operations(tmp_path / "run.cutaway")
    assert named["backpropagation"] == seen.iterations == 120
    assert (
        600 <= named["inference"] < 800
    )  # before each step and, for a moment, before each reset
    assert shares(tmp_path / "run.cutaway").get("", 0) < 10
    assert set(cw.open(tmp_path / "run.cutaway").iterations()["steps"].tolist()) == {
        5
    }  # pauses or not


def test_a_training_that_is_one_compiled_program_says_so(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py")
    named = operations(tmp_path / "run.cutaway")
    assert named["training program"] == seen.iterations == 3
    assert "compile" not in shares(
        tmp_path / "run.cutaway"
    )  # that was in the first iteration
    assert {"simulation", "inference", "backpropagation"}.isdisjoint(named)


def test_an_update_that_is_compiled_while_recording_pauses_is_known(
    tmp_path: Path,
) -> None:
    learning = "weights = learn(weights, jnp.zeros((512, 4)) + x)"
    first = f"if number == 4: _recorder.pause()\n            {learning}\n            if number == 4: _recorder.resume()"
    script(
        tmp_path, "    from cutaway import _recorder\n" + LOOP.replace(learning, first)
    )
    (seen,) = record(tmp_path, "train.py")
    assert notes(tmp_path / "run.cutaway") == []
    assert seen.iterations == 120


def test_functions_made_before_the_window_of_a_recording_are_known(
    tmp_path: Path,
) -> None:
    script(tmp_path, LOOP)
    (seen,) = record(tmp_path, "--after", "20it", "--for", "50it", "train.py")
    named = operations(tmp_path / "run.cutaway")
    assert named["backpropagation"] == seen.iterations == 50
    assert named["inference"] >= 5 * 50
    assert shares(tmp_path / "run.cutaway").get("", 0) < 10


def test_why_an_operation_has_its_name(tmp_path: Path) -> None:
    script(tmp_path, LOOP)
    record(tmp_path, "train.py")
    table = cw.open(tmp_path / "run.cutaway").breakdown(by=("operation", "why"))
    reasons = {(row["operation"], row["why"]) for row in table}
    assert (
        "backpropagation",
        "a compiled function that computes a gradient",
    ) in reasons
    assert ("inference", "leads to the next step") in reasons
    assert ("simulation", "a framework named it") in reasons
    shown = cutaway(
        "show", "run.cutaway", "--by", "operation", "--why", "--json", cwd=tmp_path
    )
    rows = json.loads(shown.stdout)["rows"]
    assert abs(sum(row["share"] for row in rows) - 1) < 0.01
    assert {row["why"] for row in rows} >= {
        "leads to the next step",
        "a framework named it",
    }


def test_a_program_of_one_call_starts_up_until_it_is_compiled(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM.replace("range(3)", "range(1)"))
    (seen,) = record(tmp_path, "train.py")
    run = cw.open(tmp_path / "run.cutaway")
    assert seen.iterations == 1
    assert "compile" in run.startup().breakdown(by="operation")["operation"]
    steady = run.steady().breakdown(by="operation")["operation"].tolist()
    assert "training program" in steady and "compile" not in steady


def test_a_training_that_is_mapped_over_devices_is_one_program_by_its_own_name(
    tmp_path: Path,
) -> None:
    """`jax.pmap`, as in Brax: JAX jits a function of its own around each, and all of those have one name."""
    mapped = PROGRAM.replace("@jax.jit", "@jax.pmap").replace(
        "train(jax.random.PRNGKey(seed))",
        "train(reset(jax.random.PRNGKey(seed)[None]))",
    )
    mapped = mapped.replace(
        "    @jax.pmap",
        "    @jax.pmap\n    def reset(key): return key + 0\n\n    @jax.pmap",
        1,
    )
    script(tmp_path, mapped)
    (seen,) = record(tmp_path, "train.py")
    assert notes(tmp_path / "run.cutaway") == []
    named = operations(tmp_path / "run.cutaway")
    assert named["training program"] == seen.iterations == 3
    assert named["simulation"] == 3


ROLLOUT = """
    import jax, jax.numpy as jnp

    def advance(state, action):
        moved = state + 0.1 * action - 0.01 * state
        return moved, -jnp.square(moved).mean(-1), jnp.abs(moved).max(-1) > 5

    @jax.jit
    def collect(weights, state, key):
        def body(carry, _):
            state, key = carry
            key, noise = jax.random.split(key)
            action = jnp.tanh(state @ weights) + 0.1 * jax.random.normal(noise, state.shape)
            after, reward, over = advance(state, action)
            return (after, key), (state, action, reward, over)
        return jax.lax.scan(body, (state, key), None, 64)

    @jax.jit
    def recall(weights, seen):
        def body(hidden, x):
            hidden = jnp.tanh(hidden @ weights + x)
            return hidden, (hidden, hidden + 1)
        return jax.lax.scan(body, jnp.zeros((256, 64)), seen)

    @jax.jit
    def learn(weights, seen, taken):
        return weights - 0.01 * jax.grad(lambda w: ((jnp.tanh(seen @ w) - taken) ** 2).mean())(weights)

    weights, state, key = jnp.eye(64), jnp.ones((256, 64)), jax.random.PRNGKey(0)
    for number in range(12):
        (state, key), (seen, taken, reward, over) = collect(weights, state, key)
        WAIT(over)
        jax.block_until_ready(recall(weights, seen)) if number == 11 else None
        weights = learn(weights, seen, taken)
        jax.block_until_ready(weights)
"""


def test_a_compiled_rollout_is_neither_inference_nor_an_update(tmp_path: Path) -> None:
    script(tmp_path, ROLLOUT.replace("WAIT", "jax.block_until_ready"))
    (seen,) = record(tmp_path, "train.py")
    run = tmp_path / "run.cutaway"
    assert notes(run) == []
    named = operations(run)
    assert named["rollout program"] >= 12 and seen.iterations == 12
    assert "training program" not in named and "simulation" not in named
    held = dict(cw.open(run).trace.processes[0].log.compiled)
    assert held["jax.jit(collect)"] == "rollout"
    assert held["jax.jit(recall)"] == "network"
    assert held["jax.jit(learn)"] == "update"


def test_a_wait_for_a_rollout_and_an_update_is_a_wait_for_both(tmp_path: Path) -> None:
    script(tmp_path, ROLLOUT.replace("WAIT(over)", "pass"))
    record(tmp_path, "train.py")
    run = cw.open(tmp_path / "run.cutaway")
    reasons = {
        (row["operation"], row["why"]) for row in run.breakdown(by=("operation", "why"))
    }
    assert ("training program", "waits for a compiled update") in reasons
    assert operations(tmp_path / "run.cutaway")["rollout program"] >= 12
