"""Layer backend with TensorFlow: eager operations, functions, gradients; tf.py_function is Python while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf
from recorded_calls import Seen, calls, recording

from cutaway import _recorder
from cutaway.record import layers


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    tf.ones(1) + 1
    layers.install()
    with recording(tmp_path):
        yield tmp_path


def _seen(run: Path) -> list[Seen]:
    layers.remove()
    _recorder.stop()
    return calls(run)


def test_eager_operations_and_gradients(run: Path) -> None:
    x = tf.ones((3, 3))
    for _ in range(5):
        tf.matmul(x, x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    gradient = tape.gradient(y, x)
    assert float(gradient[0, 0]) == 2
    seen = [c.fn for c in _seen(run) if c.layer == "backend"]
    assert seen.count("tensorflow.TFE_Py_FastPathExecute") >= 7
    assert "tensorflow.TFE_Py_TapeGradient" in seen


def test_functions(run: Path) -> None:
    @tf.function
    def twice(x: Any) -> Any:
        return x * 2

    for _ in range(4):
        twice(tf.ones(3))
    assert [c for c in _seen(run) if c.layer == "backend"]


def test_a_python_function_is_python(run: Path) -> None:
    @tf.function
    def calls_back(x: Any) -> Any:
        return tf.py_function(lambda v: v + 1, [x], tf.float32)

    assert calls_back(tf.ones(2)).numpy().tolist() == [2, 2]
    assert [c for c in _seen(run) if c.layer == "python" and c.fn == "__call__"]
