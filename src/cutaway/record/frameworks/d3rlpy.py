"""d3rlpy: updates, explorers and predictions, replay buffers, evaluators, saved models; environments are gymnasium's."""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover, cover_family
from cutaway.record.imports import when_imported

EVALUATIONS = ("evaluate_qlearning_with_environment", "evaluate_transformer_with_environment")
BUFFER_CALLS = (
    "append",
    "append_episode",
    "clip_episode",
    "sample_transition",
    "sample_transition_batch",
    "sample_trajectory",
    "sample_trajectory_batch",
)


def install() -> None:
    when_imported("d3rlpy.base", _learnables)
    when_imported("d3rlpy.algos.qlearning.base", _qlearning)
    when_imported("d3rlpy.algos.transformer.base", _transformers)
    when_imported("d3rlpy.algos.qlearning.explorers", _explorers)
    when_imported("d3rlpy.dataset.replay_buffer", _buffers)
    when_imported("d3rlpy.metrics.utility", _evaluations)
    when_imported("d3rlpy.metrics.evaluators", _evaluators)
    when_imported("d3rlpy.logging.logger", _loggers)


def _learnables(module: ModuleType) -> None:
    cover_family(module.LearnableBase, ("save", "save_model", "save_policy"), "checkpoint")


def _qlearning(module: ModuleType) -> None:
    cover_family(module.QLearningAlgoBase, ("update",), "backpropagation", update=True)
    cover_family(module.QLearningAlgoBase, ("sample_action", "predict", "predict_value"), "inference")
    _evaluations(module)


def _transformers(module: ModuleType) -> None:
    cover_family(module.TransformerAlgoBase, ("update",), "backpropagation", update=True)
    for cls in ("StatefulTransformerWrapper", "TransformerAlgoBase"):
        cover_family(getattr(module, cls), ("predict",), "inference")
    _evaluations(module)


def _explorers(module: ModuleType) -> None:
    cover_family(module.Explorer, ("sample",), "inference")


def _buffers(module: ModuleType) -> None:
    cover_family(module.ReplayBufferBase, BUFFER_CALLS, "replay")


def _evaluations(module: ModuleType) -> None:
    """Modules that imported the functions by name before they were covered have them covered again."""
    for name in EVALUATIONS:
        cover(module, name, "evaluation")


def _evaluators(module: ModuleType) -> None:
    cover_family(module.EvaluatorProtocol, ("__call__",), "evaluation")


def _loggers(module: ModuleType) -> None:
    cover(module.D3RLPyLogger, "save_model", "checkpoint")
