"""OpenSpiel: tree search with inference or rollouts inside, and the processes of its AlphaZero.

A game an actor plays is simulation; its steps are the decisions in it. So is the time the learner waits for games: it
looks into the queues of its actors and sleeps. The evaluator's whole work is evaluation.
"""

from __future__ import annotations

import sys
import time

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, Rule, begin_iteration, replace
from cutaway.record.imports import Any


def _played(logger: Any, trajectory: Any) -> None:
    _recorder.step(len(trajectory.states))


def _cleared(histogram: Any) -> None:
    """A step of the learner begins where it clears its statistics; this one it has only once."""
    if sys._getframe(1).f_code.co_name == "learner":
        begin_iteration()


ALGORITHMS = "open_spiel.python.algorithms"
ZERO = f"{ALGORITHMS}.alpha_zero"
SEARCHES = f"{ALGORITHMS}.mcts {ALGORITHMS}.async_mcts"
MODELS = f"{ZERO}.model_linen {ZERO}.model_nnx"
ENVIRONMENTS = "open_spiel.python.rl_environment"
RULES = (
    Rule(SEARCHES, "MCTSBot+", "mcts_search async_mcts_search", "search"),
    Rule(SEARCHES, "RandomRolloutEvaluator+", "evaluate prior_and_value", "simulation"),
    Rule(f"{ALGORITHMS}.ismcts", "ISMCTSBot+", "run_search", "search"),
    Rule(MODELS, "Model", "inference", "inference"),
    Rule(MODELS, "Model", "update", "backpropagation"),
    Rule(MODELS, "Model", "save_checkpoint", "checkpoint"),
    Rule(f"{ZERO}.replay_buffer", "Buffer+", "append sample", "replay"),
    Rule(f"{ZERO}.alpha_zero", "", "_play_game", "simulation", on_exit=_played),
    Rule(f"{ZERO}.alpha_zero", "", "update_checkpoint", "sync"),
    Rule(f"{ZERO}.alpha_zero", "", "evaluator", "evaluation"),
    Rule("open_spiel.python.utils.stats", "HistogramNamed", "reset", on_enter=_cleared),
    Rule(ENVIRONMENTS, "Environment+", "step", "simulation", steps=1),
    Rule(ENVIRONMENTS, "Environment+", "reset", "simulation"),
)


def _sleep(*, seconds: float) -> None:
    time.sleep(seconds)


class _Clock:
    """The module `time` for AlphaZero, whose learner sleeps until there are games."""

    _wait = _recorder.Span(_sleep, "simulation", hidden_in=HIDDEN_IN["simulation"])

    def sleep(self, seconds: float) -> None:
        type(self)._wait(seconds=seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


MODULES = {f"{ZERO}.alpha_zero": lambda module: replace(module, "time", _Clock())}
