"""OpenSpiel: tree search with inference or rollouts inside, and the processes of its AlphaZero. A game an actor plays is simulation;
its steps are the decisions in it. So is the time the learner waits for games: it looks into the queues of its actors and sleeps.
The evaluator's whole work is evaluation."""

from __future__ import annotations

import sys
import time
from functools import partial
from types import ModuleType

from cutaway import _recorder
from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import Rule, begin_iteration, replace, span
from cutaway.record.imports import Any


def _played(logger: Any, trajectory: Any) -> None:
    _recorder.step(len(trajectory.states))


def _cleared(histogram: Any) -> None:
    """A step of the learner begins where it clears its statistics; this one it has only once."""
    if sys._getframe(1).f_code.co_name == "learner":
        begin_iteration()


def _waits_for_games(module: ModuleType) -> None:
    def sleep(seconds: float) -> None:
        # Without arguments: the first one would be taken for an environment.
        span(partial(time.sleep, seconds), "simulation")()

    clock = ModuleType("time")
    vars(clock).update(vars(time), sleep=sleep)
    replace(module, "time", clock)


SPIEL = "open_spiel.python"
ZERO = f"{SPIEL}.algorithms.alpha_zero"
SEARCHES = f"{SPIEL}.algorithms.mcts {SPIEL}.algorithms.async_mcts"
MODELS = f"{ZERO}.model_linen {ZERO}.model_nnx"
RULES = [
    Rule(SEARCHES, "MCTSBot+", search="mcts_search async_mcts_search"),
    Rule(SEARCHES, "RandomRolloutEvaluator+", simulation="evaluate prior_and_value"),
    Rule(f"{SPIEL}.algorithms.ismcts", "ISMCTSBot+", search="run_search"),
    Rule(
        MODELS,
        "Model",
        inference="inference",
        backpropagation="update",
        checkpoint="save_checkpoint",
    ),
    Rule(f"{ZERO}.replay_buffer", "Buffer+", replay="append sample"),
    Rule(f"{ZERO}.alpha_zero", "", simulation="_play_game", on_exit=_played),
    Rule(f"{ZERO}.alpha_zero", "", sync="update_checkpoint", evaluation="evaluator"),
    Rule(f"{SPIEL}.utils.stats", "HistogramNamed", "reset", on_enter=_cleared),
    Rule(f"{SPIEL}.rl_environment", "Environment+", simulation="step", steps=1),
    Rule(f"{SPIEL}.rl_environment", "Environment+", simulation="reset"),
]
CARD = Card(
    "OpenSpiel",
    version="2.0",
    rules=RULES,
    modules={f"{ZERO}.alpha_zero": _waits_for_games},
)
