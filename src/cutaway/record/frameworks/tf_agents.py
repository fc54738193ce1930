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
from cutaway.record.frameworks import tf_functions
from cutaway.record.frameworks.cover import HIDDEN_IN, cover, cover_family
from cutaway.record.imports import when_imported

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any

SPREAD = (
    "BatchedPyEnvironment",
    "ParallelPyEnvironment",
)  # their members step on threads and in processes of their own


def install() -> None:
    when_imported("tf_agents.environments.py_environment", _environments)
    when_imported("tf_agents.environments.tf_environment", _tf_environments)
    when_imported("tf_agents.policies.tf_policy", _policies)
    when_imported("tf_agents.policies.py_policy", _policies)
    when_imported("tf_agents.agents.tf_agent", _agents)
    when_imported("tf_agents.train.learner", _learners)
    when_imported("tf_agents.drivers.driver", _drivers)
    when_imported("tf_agents.replay_buffers.replay_buffer", _buffers)
    when_imported("tf_agents.eval.metric_utils", _evaluation)
    when_imported("tf_agents.utils.common", _checkpoints)
    when_imported("tf_agents.policies.policy_saver", _checkpoints)


class _Thread(threading.local):
    depth = 0  # environments wrap each other: only the outermost step counts


_thread = _Thread()
_evaluating: list[bool] = []  # not by thread: graphs call environments on threads of their own


def _environments(module: Any) -> None:
    cover(module.PyEnvironment, "step", "simulation", around=_counted)
    cover(module.PyEnvironment, "reset", "simulation")


def _counted(step: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(step)
    def counted(environment: Any, *args: Any) -> Any:
        _thread.depth += 1
        try:
            made = step(environment, *args)
        finally:
            _thread.depth -= 1
        if _thread.depth == 0 and not _evaluating:
            _count(environment, made)
        return made

    return tf_functions.left_alone(counted)


def _count(environment: Any, made: Any) -> None:
    """The call that only resets, after the end of an episode, returns the first state of the next: no step."""
    names = {cls.__name__ for cls in type(environment).__mro__}
    if names.isdisjoint(SPREAD) or getattr(environment, "batch_size", None) == 1:
        _recorder.step(int((made.step_type != 0).sum()))


def _tf_environments(module: Any) -> None:
    cover_family(module.TFEnvironment, ("step", "reset"), "simulation")


def _policies(module: Any) -> None:
    base = module.TFPolicy if hasattr(module, "TFPolicy") else module.PyPolicy
    cover_family(base, ("action", "distribution"), "inference")
    tf_functions.NAMERS.append(
        functools.partial(_method_of, base, ("action",), tf_functions.span("inference"))
    )


_collected: list[bool] = []  # since the last update
_begin_iteration = _recorder.Span(lambda: None, None, iteration=True)


def _trained(agent: Any, losses: Any) -> None:
    _collected.clear()


def _collects(driver: Any) -> None:
    if not _collected:
        _collected.append(True)
        _begin_iteration()


def _agents(module: Any) -> None:
    cover_family(module.TFAgent, ("train",), "backpropagation", on_exit=_trained)
    train = tf_functions.span("backpropagation", on_exit=_trained)
    tf_functions.NAMERS.append(functools.partial(_method_of, module.TFAgent, ("train", "_train"), train))


def _learners(module: Any) -> None:
    cover_family(module.Learner, ("run",), "backpropagation", on_exit=_trained)


def _drivers(module: Any) -> None:
    cover_family(module.Driver, ("run",), None, on_enter=_collects, hidden_in=HIDDEN_IN["simulation"])
    collect = tf_functions.span("simulation", on_enter=_collects)
    tf_functions.NAMERS.append(functools.partial(_method_of, module.Driver, ("run", "_run"), collect))


def _method_of(base: type, names: tuple[str, ...], span: Any, function: Any) -> Any:
    """The span, if the function is a method of these names of such an object, perhaps with arguments bound to it."""
    while isinstance(function, functools.partial):
        function = function.func
    owner = getattr(function, "__self__", None)
    return span if isinstance(owner, base) and function.__name__ in names else None


def _buffers(module: Any) -> None:
    cover_family(module.ReplayBuffer, ("add_batch", "get_next", "gather_all"), "replay")
    when_imported("tensorflow.python.data.ops.iterator_ops", _iterators)


def _iterators(module: Any) -> None:
    cover(module.OwnedIterator, "__next__", "replay")


def _evaluation(module: Any) -> None:
    for name in ("compute", "compute_summaries", "eager_compute"):
        cover(module, name, "evaluation", around=_set_apart)


def _set_apart(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(evaluate)
    def evaluated(*args: Any, **kwargs: Any) -> Any:
        _evaluating.append(True)
        try:
            return evaluate(*args, **kwargs)
        finally:
            _evaluating.pop()

    return tf_functions.left_alone(evaluated)


def _checkpoints(module: Any) -> None:
    for name in ("Checkpointer", "PolicySaver"):
        for method in ("save", "save_checkpoint") if hasattr(module, name) else ():
            cover(getattr(module, name), method, "checkpoint")
