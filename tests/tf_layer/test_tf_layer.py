"""Layer backend with TensorFlow: eager operations, functions, gradients; tf.py_function is Python while it runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
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


def _line(text: str) -> int:
    """The number of the only line of this file that ends in the comment."""
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith("# " + text)]
    return number


def _sites(seen: list[Seen], fn: str) -> set[tuple[str, int]]:
    return {(c.file, c.line) for c in seen if c.fn == fn}


def test_eager_operations_and_gradients_carry_their_names_and_the_line_that_asked(
    run: Path,
) -> None:
    x = tf.ones((3, 3))
    for _ in range(5):
        tf.matmul(x, x)  # the product
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)  # the loss
    gradient = tape.gradient(y, x)  # the gradient
    assert float(gradient[0, 0]) == 2
    seen = [c for c in _seen(run) if c.layer == "backend"]
    assert [c.fn for c in seen].count("tensorflow.MatMul") == 5
    assert _sites(seen, "tensorflow.MatMul") == {(__file__, _line("the product"))}
    assert (__file__, _line("the loss")) in _sites(seen, "tensorflow.Mul")
    assert _sites(seen, "tensorflow.TFE_Py_TapeGradient") == {
        (__file__, _line("the gradient"))
    }
    assert {c.file for c in seen} == {__file__}


def test_functions_carry_their_names_and_the_line_that_called_them(run: Path) -> None:
    @tf.function
    def twice_2(x: Any) -> Any:
        return x * 2

    for size in (3, 3, 4):  # a new size is traced anew
        with tf.GradientTape() as tape:
            x = tf.ones(size)
            tape.watch(x)
            y = twice_2(x)  # the call
        tape.gradient(y, x)
        twice_2(x)  # without a tape
    seen = _seen(run)
    assert _sites(seen, "tensorflow.function(twice_2)") == {
        (__file__, _line("the call")),
        (__file__, _line("without a tape")),
    }
    assert [c.fn for c in seen].count("tensorflow.function(twice_2)") == 6
    assert [c.fn for c in seen].count("tensorflow.gradient(twice_2)") == 3


def test_keras_layers_lead_to_the_line_that_called_the_model(run: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(2)])
    model(tf.ones((1, 3)))  # builds it
    for _ in range(3):
        model(tf.ones((1, 3))).numpy()  # acts
    seen = _seen(run)
    acts = _line("acts")
    assert [c.line for c in seen if c.fn == "tensorflow.MatMul"].count(acts) == 6
    assert _sites(seen, "tensorflow.EagerTensor._numpy_internal") >= {(__file__, acts)}


def test_a_python_function_is_python(run: Path) -> None:
    @tf.function
    def calls_back(x: Any) -> Any:
        return tf.py_function(lambda v: v + 1, [x], tf.float32)

    assert calls_back(tf.ones(2)).numpy().tolist() == [2, 2]
    assert [c for c in _seen(run) if c.layer == "python" and c.fn == "__call__"]
