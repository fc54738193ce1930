"""Layer wait: Ray. `ray.get`, `ray.wait` and a worker without a task wait; the actor or task waited for is named.

A worker sits in the native task loop for its whole life. The functions that the loop calls are Python again, so
what is left of the loop is idle time.
"""

from __future__ import annotations

import json
import sys

from cutaway import _recorder
from cutaway.record.frameworks.hooks import instrument
from cutaway.record.imports import Any

IDLE = "ray: wait for a task"
_NO_ACTOR = b"\xff" * 12  # how the actor id of a task that belongs to no actor begins
_LISTED = 4  # at most so many actors of one wait are named
_KEPT = 4096  # tasks whose names are remembered: those waited for are recent ones

_classes: dict[bytes, str] = {}  # of actors this process has a handle of
_tasks: dict[bytes, str] = {}
_named: list[str] = []  # what this process is called


def _apply_raylet(module: Any) -> None:
    methods = vars(module.CoreWorker)
    _recorder.patch_wait(methods["get_objects"], "ray.get", _waited_on)
    _recorder.patch_wait(methods["wait"], "ray.wait", _waited_on)
    _recorder.patch_wait(methods["run_task_loop"], IDLE, "")


def _waited_on(arguments: tuple[Any, ...]) -> str:
    """A few actors by their ids, many by the class they share, a task by its function."""
    tasks = {ref.task_id() for ref in arguments[1] if hasattr(ref, "task_id")}
    actors = {task.actor_id().binary() for task in tasks}
    if any(actor.startswith(_NO_ACTOR) for actor in actors):
        names = {_tasks.get(task.binary(), "") for task in tasks}
        if len(names) == 1:
            return f"task:{names.pop()}"
        return "task:"
    if len(actors) <= _LISTED:
        return f"actor:{','.join(sorted(actor.hex() for actor in actors))}"
    return f"actor:{','.join(sorted({_classes.get(actor, '') for actor in actors}))}"


def _handle_made(handle: Any, nothing: Any) -> None:
    _classes[handle._ray_actor_id.binary()] = (
        handle._ray_actor_creation_function_descriptor.class_name
    )


def _task_sent(function: Any, made: Any) -> None:
    if isinstance(made, list) and made:
        ref = made[0]
    else:
        ref = made
    if hasattr(ref, "task_id"):
        _tasks[ref.task_id().binary()] = function._function_name.rpartition(".")[2]
        if len(_tasks) > _KEPT:
            del _tasks[next(iter(_tasks))]


def _instrument_manager(module: Any) -> None:
    manager = module.FunctionActorManager
    _recorder.patch_callback(manager.load_actor_class)
    instrument(manager, "load_actor_class", None, on_exit=_actor_class_loaded)
    instrument(manager, "get_execution_info", None, on_exit=_about_to_run)


def _actor_class_loaded(manager: Any, cls: Any) -> None:
    """This process has become an actor: log which one, so that waits for it can name it."""
    name = getattr(cls, "__ray_actor_class__", cls).__name__
    about = sys.modules["ray"].get_runtime_context()
    _name(
        about.get_actor_name() or name,
        [f"actor:{about.get_actor_id()}", f"actor:{name}"],
    )


def _about_to_run(manager: Any, info: Any) -> None:
    """The first call of each function, or of each method of an actor, in this process."""
    _recorder.patch_callback(info.function)
    name = info.function_name.rpartition(".")[2]
    _name(name, [f"task:{name}"])


def _name(name: str, answers: list[str]) -> None:
    """The first thing a worker does names it."""
    if not _named:
        _named.append(name)
        _recorder.set_process(name=name)
        for on in answers:
            _recorder.log("feeds", json.dumps({"on": on}))
        _recorder.active()


COVERS: dict[str, Any] = {
    "ray.actor": lambda module: instrument(
        module.ActorHandle, "__init__", None, on_exit=_handle_made
    ),
    "ray.remote_function": lambda module: instrument(
        module.RemoteFunction, "_remote", None, on_exit=_task_sent
    ),
    "ray._private.function_manager": _instrument_manager,
}
MODULES: dict[str, Any] = {
    "ray._raylet": _apply_raylet,
    "ray._private.worker": lambda module: _recorder.patch_callback(
        module.Worker.deserialize_objects
    ),
    "ray._private.serialization": lambda module: _recorder.patch_callback(
        module.SerializationContext.serialize
    ),
}
