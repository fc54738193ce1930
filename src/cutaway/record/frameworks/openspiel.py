"""OpenSpiel: tree search with inference or rollouts inside, and the processes of its AlphaZero.

A game an actor plays is simulation; its steps are the decisions in it. So is the time the learner waits for games: it
looks into the queues of its actors and sleeps. The evaluator's whole work is evaluation.
"""

from __future__ import annotations

import sys
import time

from cutaway import _recorder
from cutaway.record.frameworks.cover import HIDDEN_IN, cover, cover_family, replace
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

ALGORITHMS = "open_spiel.python.algorithms"


def install() -> None:
    for name in ("mcts", "async_mcts"):
        when_imported(f"{ALGORITHMS}.{name}", _tree_search)
    when_imported(f"{ALGORITHMS}.ismcts", _information_set_search)
    for name in ("model_linen", "model_nnx"):
        when_imported(f"{ALGORITHMS}.alpha_zero.{name}", _models)
    when_imported(f"{ALGORITHMS}.alpha_zero.replay_buffer", _buffers)
    when_imported(f"{ALGORITHMS}.alpha_zero.alpha_zero", _alpha_zero)
    when_imported("open_spiel.python.utils.stats", _statistics)
    when_imported("open_spiel.python.rl_environment", _environments)


def _tree_search(module: Any) -> None:
    cover_family(module.MCTSBot, ("mcts_search", "async_mcts_search"), "search")
    cover_family(module.RandomRolloutEvaluator, ("evaluate", "prior_and_value"), "simulation")


def _information_set_search(module: Any) -> None:
    cover_family(module.ISMCTSBot, ("run_search",), "search")


def _models(module: Any) -> None:
    cover(module.Model, "inference", "inference")
    cover(module.Model, "update", "backpropagation")
    cover(module.Model, "save_checkpoint", "checkpoint")


def _buffers(module: Any) -> None:
    cover_family(module.Buffer, ("append", "sample"), "replay")


def _alpha_zero(module: Any) -> None:
    cover(module, "_play_game", "simulation", on_exit=_played)
    cover(module, "update_checkpoint", "sync")
    cover(module, "evaluator", "evaluation")
    replace(module, "time", _Clock())


def _sleep(*, seconds: float) -> None:
    time.sleep(seconds)


class _Clock:
    """The module `time` for AlphaZero, whose learner sleeps until there are games."""

    _wait = _recorder.Span(_sleep, "simulation", hidden_in=HIDDEN_IN["simulation"])

    def sleep(self, seconds: float) -> None:
        type(self)._wait(seconds=seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _played(logger: Any, trajectory: Any) -> None:
    _recorder.step(len(trajectory.states))


def _statistics(module: Any) -> None:
    """A step of the learner begins where it clears its statistics; this one it has only once."""
    cover(module.HistogramNamed, "reset", None, on_enter=_cleared)


def _cleared(histogram: Any) -> None:
    if sys._getframe(1).f_code.co_name == "learner":
        _begin_iteration()


_begin_iteration = _recorder.Span(lambda: None, None, iteration=True)


def _environments(module: Any) -> None:
    cover_family(module.Environment, ("step",), "simulation", steps=1)
    cover_family(module.Environment, ("reset",), "simulation")
