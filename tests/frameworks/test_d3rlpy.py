"""d3rlpy: online and offline training; evaluation with an environment counts no steps."""

from __future__ import annotations

import json
from pathlib import Path

from recorded import record, script

ONLINE = """
import json
import d3rlpy, gymnasium as gym
env, test_env = gym.make("CartPole-v1"), gym.make("CartPole-v1")
dqn = d3rlpy.algos.DQNConfig(batch_size=4).create(device="cpu")
buffer = d3rlpy.dataset.create_fifo_replay_buffer(limit=1000, env=env)
explorer = d3rlpy.algos.ConstantEpsilonGreedy(0.5)
dqn.fit_online(
    env, buffer, explorer, n_steps=200, n_steps_per_epoch=100, update_start_step=100, update_interval=5, eval_env=test_env,
    eval_n_trials=1, show_progress=False,
)
json.dump(dqn.grad_step, open("updates", "w"))
dataset = d3rlpy.dataset.ReplayBuffer(d3rlpy.dataset.InfiniteBuffer(), episodes=buffer.episodes)
offline = d3rlpy.algos.DiscreteCQLConfig(batch_size=4).create(device="cpu")
evaluators = {"td": d3rlpy.metrics.TDErrorEvaluator()}
offline.fit(dataset, n_steps=6, n_steps_per_epoch=3, evaluators=evaluators, show_progress=False)
"""


def test_a_dqn_and_an_offline_cql(tmp_path: Path) -> None:
    script(tmp_path, ONLINE)
    (seen,) = record(tmp_path, "train.py")
    online = json.loads((tmp_path / "updates").read_text())
    assert online > 10
    assert seen.steps == 200
    assert seen.operations["inference"] == 200
    assert seen.operations["backpropagation"] == online + 6
    # By episodes after each epoch online, by an evaluator offline.
    assert seen.operations["evaluation"] == 2 + 2
    assert seen.operations["checkpoint"] == 2 + 2
    assert seen.operations["replay"] >= 200 + online + 6
    assert seen.iterations >= online
    assert not {name for name, around in seen.inside if around == "evaluation"}
