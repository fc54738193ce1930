"""tianshou 2: collectors, buffers, vector environments, updates, and the test step, which is evaluation.

What collecting is beside acting and stepping is `replay`: batches of transitions are made, stored and checked. A collector steps
only the environments whose episodes it still wants.
"""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule, rewards

RULES = (
    Rule("tianshou.trainer", "Trainer+", "_training_step", iteration=True),
    Rule("tianshou.trainer", "Trainer+", "_collect_training_data", "replay"),
    Rule("tianshou.trainer", "Trainer+", "_update_step", "backpropagation"),
    Rule("tianshou.trainer", "Trainer+", "_test_step", "evaluation"),
    Rule("tianshou.data.collector", "BaseCollector+", "collect", "replay"),
    Rule("tianshou.data.collector", "BaseCollector+", "_compute_action_policy_hidden", "inference"),
    Rule("tianshou.data.buffer.buffer_base", "ReplayBuffer+", "add sample", "replay"),
    Rule("tianshou.algorithm.algorithm_base", "Algorithm+", "_update", "backpropagation"),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", "step", "simulation", steps=rewards),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", "reset", "simulation"),
    Rule("tianshou.utils.logger.logger_base", "BaseLogger+", "save_data", "checkpoint"),
)
