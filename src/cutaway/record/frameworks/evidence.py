"""What a method is, judged by its result: an environment's step, a batch drawn from memory, or neither.

No library is imported: arrays are what has a shape and a dtype. Values of arrays are never read, since that would wait for a device.
"""

from __future__ import annotations

from cutaway.record.imports import Any

ENDS = (
    "done",
    "terminated",
    "terminal",
    "is_last",
    "is_terminal",
    "step_type",
    "discount",
)


class Evidence:
    """`certain`: it is one. Otherwise it may be, and the user is asked."""

    def __init__(
        self, width: int, because: str, certain: bool = True, arrays: bool = False
    ) -> None:
        self.width, self.because, self.certain, self.arrays = (
            width,
            because,
            certain,
            arrays,
        )


def look_at(owner: Any, result: Any) -> Evidence | None:
    """Whether this is what an environment returns for an action."""
    if result is None:
        return _keeps_its_results(owner)
    reward = _reward_of(result)
    if reward is not None:
        shape = _shape(reward)
        many = f"{shape[0]} rewards" if shape else "a reward"
        return Evidence(
            width(owner, result),
            f"it returns {many} and the end of the episode",
            arrays=bool(shape),
        )
    if isinstance(result, tuple) and any(is_reward(one) for one in result[1:]):
        return Evidence(
            1, "it may return a reward, but no end of an episode", certain=False
        )
    if _shape(result) or (isinstance(result, (tuple, dict)) and result):
        return Evidence(
            1, "it has step and reset, but returns no reward", certain=False
        )
    return None


def is_traced(result: Any) -> bool:
    """Whether JAX only writes down what a step would do. Nothing is stepped then."""
    return type(_reward_of(result)).__name__.endswith("Tracer")


def width(owner: Any, result: Any) -> int:
    """How many environments were stepped: one reward for each."""
    if is_traced(result):
        return 0
    shape = _shape(_reward_of(result))
    return shape[0] if shape else 1


def is_batch(owner: Any, result: Any) -> Evidence | None:
    """Whether this was drawn from a memory: several arrays, or lists, of one length."""
    parts = (
        list(result.values())
        if hasattr(result, "values") and callable(result.values)
        else result
    )
    if not isinstance(parts, (tuple, list)) or len(parts) < 2:
        return None
    shapes = [_shape(part) for part in parts]
    lengths = {shape[0] for shape in shapes if shape}
    if len(lengths) != 1 or not all(shapes) or lengths == {1}:
        return None
    return Evidence(
        0, f"it stores, and draws {len(parts)} arrays of length {lengths.pop()}"
    )


def _keeps_its_results(owner: Any) -> Evidence | None:
    """PettingZoo's AEC environments and Unity's keep what a step returned."""
    kept = getattr(owner, "rewards", None)
    ends = getattr(owner, "terminations", getattr(owner, "dones", None))
    if isinstance(kept, dict) and isinstance(ends, dict):
        return Evidence(1, "it keeps rewards and terminations of its agents")
    if hasattr(owner, "get_steps") and hasattr(owner, "set_actions"):
        return Evidence(1, "it takes actions and hands out steps")
    return None


def _reward_of(result: Any) -> Any:
    """The reward in what a step returned; None if it does not say both reward and end."""
    if isinstance(result, dict):
        ends = any(end in result for end in ENDS)
        return result.get("reward") if ends else None
    if hasattr(result, "reward"):
        return result.reward if any(hasattr(result, end) for end in ENDS) else None
    if type(result) not in (tuple, list):
        return None
    for at in range(1, len(result) - 1):
        if is_reward(result[at]) and _is_end(result[at + 1], result[at]):
            return result[at]
    return None


def is_reward(value: Any) -> bool:
    """A number, one for each environment, or one for each agent."""
    if isinstance(value, dict):
        return bool(value) and all(is_reward(one) for one in value.values())
    shape = getattr(value, "shape", None)
    if shape is None:
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    kind = str(getattr(value, "dtype", ""))
    few = len(shape) <= 1 or (len(shape) == 2 and shape[1] == 1)
    return few and ("float" in kind or "int" in kind)


def _is_end(value: Any, reward: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(reward, dict) and value.keys() == reward.keys()
    shape = getattr(value, "shape", None)
    if shape is None:
        return isinstance(value, bool)
    kind = str(getattr(value, "dtype", ""))
    if "bool" in kind:
        return True
    return (
        "int" in kind
        and len(shape) > 0
        and tuple(shape) == tuple(getattr(reward, "shape", ()))
    )


def _shape(value: Any) -> tuple[int, ...]:
    """Empty if it is not an array."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return (len(value),) if isinstance(value, list) else ()
    try:
        return tuple(int(n) for n in shape)
    except (TypeError, ValueError):
        return ()
