"""Layer simulator: MuJoCo's functions, models and data. Its callbacks (mjcb_control …) are Python again."""

from __future__ import annotations

from types import ModuleType

from cutaway import _recorder
from cutaway.record.layers import walk

TYPE_CHECKING = False  # importing typing is felt at every start; checkers know the name
if TYPE_CHECKING:
    from typing import Any


def _apply(module: ModuleType) -> None:
    walk.patch_module(module, "mujoco", "simulator")


def _apply_callbacks(module: ModuleType) -> None:
    for name, function in vars(module).items():
        if name.startswith("set_mjcb_"):
            _recorder.patch_watched(function, f"mujoco.{name}", "simulator", _callback_set)


def _callback_set(arguments: tuple[Any, ...], _: object) -> None:
    for function in arguments:
        _recorder.patch_callback(function)


MODULES = {
    "mujoco._functions": _apply,
    "mujoco._structs": _apply,
    "mujoco._rollout": _apply,
    "mujoco._render": _apply,
    "mujoco._specs": _apply,
    "mujoco._callbacks": _apply_callbacks,
}
