"""d3rlpy: updates, explorers and predictions, replay buffers, evaluators, saved models; environments are gymnasium's."""

from __future__ import annotations

from cutaway.record.frameworks.cover import Rule

QLEARNING, TRANSFORMERS = "d3rlpy.algos.qlearning.base", "d3rlpy.algos.transformer.base"
EVALUATIONS = "evaluate_qlearning_with_environment evaluate_transformer_with_environment"
BUFFER_CALLS = (
    "append append_episode clip_episode sample_transition sample_transition_batch sample_trajectory "
    "sample_trajectory_batch"
)
RULES = (
    Rule("d3rlpy.base", "LearnableBase+", "save save_model save_policy", "checkpoint"),
    Rule(QLEARNING, "QLearningAlgoBase+", "update", "backpropagation", update=True),
    Rule(QLEARNING, "QLearningAlgoBase+", "sample_action predict predict_value", "inference"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", "update", "backpropagation", update=True),
    Rule(TRANSFORMERS, "StatefulTransformerWrapper+", "predict", "inference"),
    Rule(TRANSFORMERS, "TransformerAlgoBase+", "predict", "inference"),
    Rule("d3rlpy.algos.qlearning.explorers", "Explorer+", "sample", "inference"),
    Rule("d3rlpy.dataset.replay_buffer", "ReplayBufferBase+", BUFFER_CALLS, "replay"),
    # Modules that imported the functions by name before they were covered have them covered again.
    Rule(f"d3rlpy.metrics.utility {QLEARNING} {TRANSFORMERS}", "", EVALUATIONS, "evaluation"),
    Rule("d3rlpy.metrics.evaluators", "EvaluatorProtocol+", "__call__", "evaluation"),
    Rule("d3rlpy.logging.logger", "D3RLPyLogger", "save_model", "checkpoint"),
)
