"""Layer backend with JAX: jitted functions made before and after, executables, arrays; callbacks are Python."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_calls import Seen, calls, recording

from cutaway import _recorder
from cutaway.record import layers


@jax.jit
def made_before(x: Any) -> Any:
    return x + 1


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    made_before(jnp.ones(3))
    layers.install()
    with recording(tmp_path):
        yield tmp_path


def _seen(run: Path) -> list[Seen]:
    layers.remove()
    _recorder.stop()
    return calls(run)


def test_every_call_of_a_jitted_function_is_seen(run: Path) -> None:
    @jax.jit
    def made_after(x: Any) -> Any:
        return x * 2

    x = jnp.ones(3)
    for _ in range(20):
        x = made_before(x)
        x = made_after(x)
    x.block_until_ready()
    seen = [c.fn for c in _seen(run) if c.layer == "backend"]
    assert seen.count("jax.jit(made_before)") == 20
    assert seen.count("jax.jit(made_after)") == 20
    assert seen.count("jax.ArrayImpl.block_until_ready") == 1


def test_tracing_a_new_shape_is_python_inside_the_backend(run: Path) -> None:
    traced = []

    @jax.jit
    def traces(x: Any) -> Any:
        traced.append(x)
        return x - 1

    traces(jnp.ones(7))
    seen = _seen(run)
    assert len(traced) == 1
    (compiled,) = [
        c
        for c in seen
        if c.fn == "jax.Client.compile_and_load" and "jax.jit(traces)" in c.parents
    ]
    back_in_python = [
        c for c in seen if c.layer == "python" and c.parents == ("jax.jit(traces)",)
    ]
    assert [compiled.parents] == [("jax.jit(traces)", c.fn) for c in back_in_python]


def test_copies_to_the_device_and_back(run: Path) -> None:
    x = jax.device_put(np.ones(1000))
    np.asarray(x)
    seen = {c.fn for c in _seen(run)}
    assert "jax.batched_device_put" in seen
    assert "jax.ArrayImpl.__buffer__" in seen


def test_a_host_callback_is_python(run: Path) -> None:
    def host(x: Any) -> Any:
        return np.sin(x)

    @jax.jit
    def calls_back(x: Any) -> Any:
        return jax.pure_callback(host, jax.ShapeDtypeStruct((3,), np.float32), x)

    np.asarray(calls_back(jnp.ones(3)))
    assert [c for c in _seen(run) if c.layer == "python" and "callback" in c.fn]


def test_results_and_transformations_are_unchanged(run: Path) -> None:
    gradient = jax.jit(jax.grad(lambda x: (x**2).sum()))
    assert gradient(jnp.arange(3.0)).tolist() == [0, 2, 4]
    assert jax.vmap(made_before)(jnp.ones((2, 2))).tolist() == [[2, 2], [2, 2]]
    assert made_before.__name__ == "made_before"
    assert made_before.lower(jnp.ones(3)).compile()(jnp.ones(3)).tolist() == [2, 2, 2]


def test_a_jitted_function_may_die(run: Path) -> None:
    import gc
    import weakref

    function = jax.jit(lambda x: x + 3)
    function(jnp.ones(3))
    gone = weakref.ref(function)
    del function
    jax.clear_caches()
    gc.collect()
    assert gone() is None


def test_errors_of_jax_are_the_same_and_leave_the_nesting_whole(run: Path) -> None:
    def fails(call: Any) -> tuple[type, str]:
        with pytest.raises(Exception) as caught:
            call()
        return caught.type, str(caught.value).split("\n")[0]

    def deleted() -> Any:
        x = jnp.ones(3)
        x.delete()
        return made_before(
            x
        )  # a C++ exception of jaxlib, turned into Python's by nanobind

    attempts = [
        deleted,
        lambda: made_before("no array"),
        lambda: jax.device_put(np.ones(3), device=7),
    ]
    recorded = [fails(call) for call in attempts]
    made_before(jnp.ones(3)).block_until_ready()
    seen = [c for c in _seen(run) if c.layer == "backend"]
    assert recorded == [fails(call) for call in attempts]
    assert [c.parents for c in seen if c.fn == "jax.jit(made_before)"] == [(), (), ()]
    assert seen[-1].fn == "jax.ArrayImpl.block_until_ready" and seen[-1].parents == ()
