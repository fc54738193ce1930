"""tianshou 2: collectors, buffers, vector environments, updates, and the test step, which is evaluation.

What collecting is beside acting and stepping is `replay`: batches of transitions are made, stored and checked.
"""

from __future__ import annotations

from types import ModuleType

from cutaway.record.frameworks.cover import cover_family
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any


def install() -> None:
    when_imported("tianshou.trainer", _trainers)
    when_imported("tianshou.data.collector", _collectors)
    when_imported("tianshou.data.buffer.buffer_base", _buffers)
    when_imported("tianshou.algorithm.algorithm_base", _algorithms)
    when_imported("tianshou.env.venvs", _vectors)
    when_imported("tianshou.utils.logger.logger_base", _loggers)


def _trainers(module: ModuleType) -> None:
    cover_family(module.Trainer, ("_training_step",), None, iteration=True)
    cover_family(module.Trainer, ("_collect_training_data",), "replay")
    cover_family(module.Trainer, ("_update_step",), "backpropagation")
    cover_family(module.Trainer, ("_test_step",), "evaluation")


def _collectors(module: ModuleType) -> None:
    cover_family(module.BaseCollector, ("collect",), "replay")
    cover_family(module.BaseCollector, ("_compute_action_policy_hidden",), "inference")


def _buffers(module: ModuleType) -> None:
    cover_family(module.ReplayBuffer, ("add", "sample"), "replay")


def _algorithms(module: ModuleType) -> None:
    cover_family(module.Algorithm, ("_update",), "backpropagation")


def _vectors(module: ModuleType) -> None:
    cover_family(module.BaseVectorEnv, ("step",), "simulation", steps=_stepped)
    cover_family(module.BaseVectorEnv, ("reset",), "simulation")


def _stepped(env: Any, result: Any) -> int:
    """A collector steps only the environments whose episodes it still wants: one reward for each."""
    return len(result[1])


def _loggers(module: ModuleType) -> None:
    cover_family(module.BaseLogger, ("save_data",), "checkpoint")
