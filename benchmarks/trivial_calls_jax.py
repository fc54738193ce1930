"""Measures the methods of jaxlib's arrays, devices, clients and executables, by the rule of trivial_calls.py.

    python -m benchmarks.trivial_calls_jax

Prints each method that can be called without harm and what it costs. Nothing is dispatched by a method that answers from memory,
so trivial is what takes less than 400 ns every time, on arrays of several kinds; what works or waits (a copy, a transfer, an
execution) takes longer on at least one of them. Ends with an error if the list in cutaway/record/layers/jax.py says otherwise.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jaxlib import _jax as native

from benchmarks.trivial_calls import QUERY_NS, _shortest, in_child
from cutaway.record.layers import jax as layer


def objects() -> dict[str, list[Any]]:
    """One or more of each class."""
    arrays = [
        jnp.ones(3),
        jnp.ones((64, 64)),
        jnp.arange(6).reshape(2, 3),
        jnp.float32(1),
    ]
    compiled = jax.jit(lambda x: x + 1).lower(jnp.ones(3)).compile()
    executable = compiled.runtime_executable()
    device = jax.devices()[0]
    return {
        "ArrayImpl": arrays,
        "Device": [device],
        "Client": [device.client],
        "LoadedExecutable": [executable],
    }


def measure(name: str, value: Callable[..., Any]) -> dict[str, Any] | None:
    """The longest of the shortest times over all objects; None if it cannot be called without arguments."""
    kind = name.partition(".")[0]
    times = []
    for target in KNOWN.get(kind, []):
        try:
            times.append(_shortest(lambda target=target: value(target)))  # type: ignore[misc]
        except Exception:
            return None
    return {"ns": max(times), "operators": 0} if times else None


KNOWN = objects()
NEVER = ("delete", "defragment", "__setstate__", "__reduce__")
# Quick here, and yet recorded: a transfer or a wait on an accelerator, or longer the more objects there are.
RECORDED = (
    "ArrayImpl._copy_single_device_array_to_host_async ArrayImpl.unsafe_buffer_pointer Client.live_arrays "
    "Client.live_buffers Client.live_executables Device.memory_stats"
).split()


def main() -> int:
    wrong = 0
    for name, value in layer.methods(native):
        if name.partition(".")[2] in NEVER:
            continue
        result = in_child(name, value, measure=measure)
        listed = name in layer._TRIVIAL
        if result is None:
            print(f"{name:48} not called here{', listed as trivial' if listed else ''}")
            continue
        trivial = result["ns"] < QUERY_NS and name not in RECORDED
        near = (
            QUERY_NS / 2 < result["ns"] < QUERY_NS * 2
        )  # a busy machine may say either
        wrong += trivial != listed and not near
        word = "trivial" if trivial else "recorded"
        print(
            f"{name:48} {result['ns']:8.0f} ns  {word}{'' if trivial == listed else '  <- the list says otherwise'}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
