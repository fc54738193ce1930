"""tianshou 2. What collecting is beside acting and stepping is `replay`: batches of transitions are made, stored and checked. A
collector steps only the environments whose episodes it still wants. The test step is evaluation."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule, rewards

RULES = [
    Rule("tianshou.trainer", "Trainer+", "_training_step", iteration=True),
    Rule(
        "tianshou.trainer",
        "Trainer+",
        replay="_collect_training_data",
        backpropagation="_update_step",
    ),
    Rule("tianshou.trainer", "Trainer+", evaluation="_test_step"),
    Rule("tianshou.data.collector", "BaseCollector+", replay="collect"),
    Rule(
        "tianshou.data.collector",
        "BaseCollector+",
        inference="_compute_action_policy_hidden",
    ),
    Rule("tianshou.data.buffer.buffer_base", "ReplayBuffer+", replay="add sample"),
    Rule("tianshou.algorithm.algorithm_base", "Algorithm+", backpropagation="_update"),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", simulation="step", steps=rewards),
    Rule("tianshou.env.venvs", "BaseVectorEnv+", simulation="reset"),
    Rule("tianshou.utils.logger.logger_base", "BaseLogger+", checkpoint="save_data"),
]

CARD = Card(
    "tianshou",
    version="2.0",
    rules=RULES,
    loop="tianshou",
    settings=[
        Settings(
            until="2",
            update="raise batch_size, or lower repeat_per_collect",
            passes="lower repeat_per_collect",
            rarer="lower update_per_step",
        ),
        Settings(
            workers="use SubprocVectorEnv with {n} environments",
            fewer="{n} environments in SubprocVectorEnv, or DummyVectorEnv",
            one_process="DummyVectorEnv instead of SubprocVectorEnv",
            inference="put more environments into the training VectorEnv, so that one forward pass serves more of them",
            update="raise batch_size, or lower update_step_num_repetitions",
            passes="lower update_step_num_repetitions",
            rarer="lower update_step_num_gradient_steps_per_sample",
        ),
    ],
)
