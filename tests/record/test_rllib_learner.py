"""What the parts of RLlib are that IMPALA and APPO run in several threads: without a cluster, by calling them."""

from __future__ import annotations

from pathlib import Path

from named import operations
from recorded import record, script

PROGRAM = """
    import numpy as np
    from ray.rllib.algorithms.impala.impala_learner import IMPALALearner
    from ray.rllib.core.learner.learner import Learner
    from ray.rllib.core.learner.training_data import TrainingData
    from ray.rllib.policy.sample_batch import SampleBatch
    from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

    def named(cls, method): return type(vars(cls)[method]).__name__ == "Span"

    assert named(Learner, "update")
    assert not named(IMPALALearner, "update")  # it hands batches to the thread that trains
    metrics = MetricsLogger(root=True)
    learner = object.__new__(type("Bare", (), {"module": {"default_policy": None}}))
    batch = SampleBatch({"obs": np.zeros((4, 2), np.float32)})
    for _ in range(3):
        data = TrainingData(batch=batch)
        data.solve_refs()
        try: Learner._make_batch_if_necessary(learner, training_data=data)
        except AttributeError: pass  # it has no device
        with metrics.log_time("env_runner_state_server_pull"): pass
        with metrics.log_time("sample"): pass
"""


def test_making_batches_is_replay_and_pulling_weights_is_sync(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM)
    record(tmp_path, "train.py")
    named = operations(tmp_path / "run.cutaway")
    assert named["sync"] == 3 and named["replay"] == 6
    assert "backpropagation" not in named
