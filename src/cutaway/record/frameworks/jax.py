"""JAX loops. Tracing, lowering and compiling are `compile`. What a jitted function is for is read from its program when
it is compiled: one that holds a gradient is an update, and ends an iteration. The analysis names the rest by what it
leads to (docs/naming.md).
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator
from functools import partial

from cutaway import _recorder
from cutaway.record.frameworks.hooks import Rule
from cutaway.record.imports import Any
from cutaway.record.layers.jax import shown

PROGRAM, ROLLOUT = "training program", "rollout program"
_LOOPS = ("scan", "while")
_NETWORKS = ("dot_general", "conv_general_dilated")
_TRANSITION = 3  # arrays, at least
_STEPS = (
    "step",
    "reset",
    "env_step",
    "env_reset",
    "step_env",
    "reset_env",
    "_step",
    "_reset",
)

_known: set[tuple[str, str]] = set()


def _begin(jax: Any) -> None:
    _known.clear()
    _recorder.expect_updates()


def _compiles(turn: Callable[[str], None], stage: Any, result: Any = None) -> None:
    if stage.event is not None:
        turn("compile")


def _run(run: Any, *args: Any, **params: Any) -> Any:
    """A jitted function runs the slow way: the first time with these shapes."""
    _look_at(params.get("jaxpr"), params.get("name"))
    return run(*args, **params)


def _lower_mapped(lower: Any, *args: Any, **params: Any) -> Any:
    """`jax.pmap` before JAX 0.9 lowers what it compiles in its own way."""
    _look_at(params.get("closed_jaxpr"), args[5] if len(args) > 5 else None)
    return lower(*args, **params)


def _look_at(closed: Any, name: Any) -> None:
    """The call of the program goes on whatever happens here."""
    try:
        _classify(closed.jaxpr, str(name))
    except Exception as error:
        _recorder.note(
            f"jax.jit({name}) is not classified: {type(error).__name__}: {error}"
        )


def _classify(program: Any, name: str) -> None:
    """Say what a compiled function holds, once."""
    place = str(program.debug_info.func_src_info)
    running = _recorder.running_compiled()
    called = f"jax.jit({name})" if running is None else shown(running)
    if (called, place) in _known:
        return
    _known.add((called, place))
    mapped = called.startswith(
        "jax.pmap("
    )  # everything else of JAX itself serves whoever calls it
    inside = called.removeprefix("jax.pmap(").rstrip(")") if mapped else name
    holds = "" if "/jax/_src/" in place and not mapped else what(program, inside)
    if holds:
        _recorder.log("compiled", json.dumps({"function": called, "holds": holds}))
    if holds in ("update", "program") and not _recorder.compiled_updates(None):
        for found in _functions(name, place):  # recording pauses: the call is not seen
            _recorder.compiled_updates(found)
    for given in {"program": (PROGRAM,), "rollout": (PROGRAM, ROLLOUT)}.get(holds, ()):
        _recorder.operation(given)  # gives the name an id


def _functions(name: str, place: str) -> list[Any]:
    """The jitted functions of this name that are defined at this place (`NAME at FILE:LINE`)."""
    kind = type(sys.modules["jax"].jit(len))
    found = [
        o
        for o in gc.get_objects()
        if type(o) is kind and getattr(o, "__name__", "") == name
    ]
    codes = [getattr(getattr(o, "__wrapped__", None), "__code__", None) for o in found]
    return [
        o
        for o, code in zip(found, codes, strict=True)
        if code and code.co_filename in place
    ]


def what(program: Any, name: str) -> str:
    """What a program is for: update, step, network, rollout (steps and network in a loop), program (all of them), or "" if that
    cannot be told."""
    if has_gradient(program):
        return "program" if _simulates_and_learns(program) else "update"
    if name in _STEPS:
        return "step"
    if collects(program):
        return "rollout"
    return (
        "network"
        if any(e.primitive.name in _NETWORKS for e in _equations(program))
        else ""
    )


def has_gradient(program: Any) -> bool:
    """Equations made by reverse differentiation say so in their name stack, in loops and inner functions, too."""
    return any(
        "transpose" in str(e.source_info.name_stack) for e in _equations(program)
    )


def collects(program: Any) -> bool:
    """Whether a program asks a network in a loop, and keeps of each pass what a transition has: observation, action, reward and
    more. A recurrent network keeps what it puts out, and its state."""
    for equation in _equations(program):
        if equation.primitive.name != "scan":
            continue
        kept = len(equation.outvars) - equation.params["num_carry"]
        if kept >= _TRANSITION and any(
            e.primitive.name in _NETWORKS
            for body in _programs_in(equation)
            for e in _equations(body)
        ):
            return True
    return False


def _simulates_and_learns(program: Any) -> bool:
    """A loop that holds both a gradient in an inner loop and an inner loop without one collects data and learns from it.
    A compiled update alone has gradients in all its nested loops."""
    for equation in _equations(program):
        if equation.primitive.name not in _LOOPS:
            continue
        for body in _programs_in(equation):
            inner = [e for e in _equations(body) if e.primitive.name in _LOOPS]
            learns = [any(has_gradient(p) for p in _programs_in(e)) for e in inner]
            if any(learns) and not all(learns):
                return True
    return False


def _equations(program: Any) -> Iterator[Any]:
    for equation in program.eqns:
        yield equation
        for inner in _programs_in(equation):
            yield from _equations(inner)


def _programs_in(equation: Any) -> Iterator[Any]:
    for value in equation.params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            inner = getattr(one, "jaxpr", one)
            if hasattr(inner, "eqns"):
                yield inner


# JAX times its own tracing, lowering, compiling.
STAGES = ("jax._src.dispatch", "LogElapsedTimeContextManager")
RULES = (
    Rule(*STAGES, "__enter__", on_enter=partial(_compiles, _recorder.begin_operation)),
    Rule(*STAGES, "__exit__", on_exit=partial(_compiles, _recorder.end_operation)),
    Rule("jax._src.pjit", "", "_pjit_call_impl_python", around=_run),
    Rule(
        "jax._src.interpreters.pxla",
        "",
        "lower_parallel_callable",
        around=_lower_mapped,
    ),
)
MODULES = {"jax": _begin}
