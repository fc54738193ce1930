"""d3rlpy. Its environments are gymnasium's. Modules that imported the functions of evaluation by name before they were
instrumented have them instrumented again."""

from __future__ import annotations

from cutaway.record.frameworks.card import Card, Settings
from cutaway.record.frameworks.hooks import Rule

QLEARNING, TRANSFORMERS = "d3rlpy.algos.qlearning.base", "d3rlpy.algos.transformer.base"
ENVIRONMENT_CALLS = (
    "evaluate_qlearning_with_environment evaluate_transformer_with_environment"
)
BUFFER_CALLS = (
    "append append_episode clip_episode sample_transition sample_transition_batch sample_trajectory "
    "sample_trajectory_batch"
)
RULES = [
    Rule("d3rlpy.base", "LearnableBase+", checkpoint="save save_model save_policy"),
    Rule(QLEARNING, "QLearningAlgoBase+", backpropagation="update", update=True),
    Rule(
        QLEARNING, "QLearningAlgoBase+", inference="sample_action predict predict_value"
    ),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", backpropagation="update", update=True),
    Rule(TRANSFORMERS, "StatefulTransformerWrapper+", inference="predict"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", inference="predict"),
    Rule("d3rlpy.algos.qlearning.explorers", "Explorer+", inference="sample"),
    Rule("d3rlpy.dataset.replay_buffer", "ReplayBufferBase+", replay=BUFFER_CALLS),
    Rule(
        f"d3rlpy.metrics.utility {QLEARNING} {TRANSFORMERS}",
        "",
        evaluation=ENVIRONMENT_CALLS,
    ),
    Rule("d3rlpy.metrics.evaluators", "EvaluatorProtocol+", evaluation="__call__"),
    Rule("d3rlpy.logging.logger", "D3RLPyLogger", checkpoint="save_model"),
]
CARD = Card(
    "d3rlpy",
    version="2.8",
    rules=RULES,
    loop="d3rlpy",
    settings=[
        Settings(
            rarer="use a smaller batch_size or network, or set compile_graph=True on a GPU"
        )
    ],
)
