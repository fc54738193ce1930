"""TF-Agents: environments, policies, agents, buffers, in eager mode and under tf.function.

A driver that was made a tf.function runs as one graph: the thread that calls it is in `simulation`, though inference
happens in that graph too; the environment itself runs on another thread. The first run of a driver after an update
begins an iteration.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable

from cutaway import _recorder
from cutaway.record.frameworks.card import Card
from cutaway.record.frameworks.hooks import HIDDEN_IN, Rule, begin_iteration
from cutaway.record.frameworks.tensorflow import NAMERS, caller
from cutaway.record.imports import Any

# Their members step on threads and in processes of their own.
SPREAD = ("BatchedPyEnvironment", "ParallelPyEnvironment")


class _Thread(threading.local):
    depth = 0  # environments wrap each other: only the outermost step counts


_thread = _Thread()
_evaluating: list[
    bool
] = []  # not by thread: graphs call environments on threads of their own
_collected: list[bool] = []  # since the last update


def _counted(step: Callable[..., Any], environment: Any, *args: Any) -> Any:
    _thread.depth += 1
    try:
        made = step(environment, *args)
    finally:
        _thread.depth -= 1
    if _thread.depth == 0 and not _evaluating:
        names = {cls.__name__ for cls in type(environment).__mro__}
        if names.isdisjoint(SPREAD) or getattr(environment, "batch_size", None) == 1:
            # The call that only resets, after the end of an episode, returns the first state of the next: no step.
            _recorder.step(int((made.step_type != 0).sum()))
    return made


def _trained(agent: Any, losses: Any) -> None:
    _collected.clear()


def _collects(driver: Any) -> None:
    if not _collected:
        _collected.append(True)
        begin_iteration()


def _set_apart(evaluate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    _evaluating.append(True)
    try:
        return evaluate(*args, **kwargs)
    finally:
        _evaluating.pop()


def _name_functions(
    cls: str, names: tuple[str, ...], caller: Any
) -> Callable[[Any], None]:
    """Name tf.functions made of these methods of objects of a class, perhaps with arguments bound to them."""

    def namer(base: type, function: Any) -> Any:
        while isinstance(function, functools.partial):
            function = function.func
        owner = getattr(function, "__self__", None)
        return (
            caller if isinstance(owner, base) and function.__name__ in names else None
        )

    return lambda module: NAMERS.append(functools.partial(namer, getattr(module, cls)))


ENVIRONMENTS, POLICIES, AGENT = (
    "tf_agents.environments",
    "tf_agents.policies",
    "tf_agents.agents.tf_agent",
)
DRIVER, METRICS = "tf_agents.drivers.driver", "tf_agents.eval.metric_utils"
BUFFER = ("tf_agents.replay_buffers.replay_buffer", "ReplayBuffer+")
RULES = (
    Rule(
        f"{ENVIRONMENTS}.py_environment",
        "PyEnvironment",
        simulation="step",
        around=_counted,
    ),
    Rule(f"{ENVIRONMENTS}.py_environment", "PyEnvironment", simulation="reset"),
    Rule(f"{ENVIRONMENTS}.tf_environment", "TFEnvironment+", simulation="step reset"),
    Rule(f"{POLICIES}.tf_policy", "TFPolicy+", inference="action distribution"),
    Rule(f"{POLICIES}.py_policy", "PyPolicy+", inference="action distribution"),
    Rule(AGENT, "TFAgent+", backpropagation="train", on_exit=_trained),
    Rule(
        "tf_agents.train.learner", "Learner+", backpropagation="run", on_exit=_trained
    ),
    Rule(
        DRIVER, "Driver+", "run", on_enter=_collects, hidden_in=HIDDEN_IN["simulation"]
    ),
    Rule(*BUFFER, replay="add_batch get_next gather_all"),
    Rule("tensorflow.python.data.ops.iterator_ops", "OwnedIterator", replay="__next__"),
    Rule(
        METRICS,
        "",
        evaluation="compute compute_summaries eager_compute",
        around=_set_apart,
    ),
    Rule("tf_agents.utils.common", "Checkpointer", checkpoint="save save_checkpoint"),
    Rule(f"{POLICIES}.policy_saver", "PolicySaver", checkpoint="save save_checkpoint"),
)
MODULES = {
    f"{POLICIES}.tf_policy": _name_functions(
        "TFPolicy", ("action",), caller("inference")
    ),
    f"{POLICIES}.py_policy": _name_functions(
        "PyPolicy", ("action",), caller("inference")
    ),
    AGENT: _name_functions(
        "TFAgent", ("train", "_train"), caller("backpropagation", on_exit=_trained)
    ),
    DRIVER: _name_functions(
        "Driver", ("run", "_run"), caller("simulation", on_enter=_collects)
    ),
}
CARD = Card("TF-Agents", version="0.19", rules=RULES, modules=MODULES)
