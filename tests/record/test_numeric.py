"""Layer native: NumPy, SciPy and OpenCV with large arrays are recorded, small calls pass unseen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recorded_calls import calls, recording

from cutaway.record import layers


def _seen(folder: Path, work: Any) -> list[str]:
    layers.install()
    with recording(folder):
        work()
    return [c.fn for c in calls(folder, "native")]


@pytest.mark.core
def test_numpy_with_large_arrays(tmp_path: Path) -> None:
    large, random = np.ones((200, 200)), np.random.default_rng(0)
    rows = np.arange(100)

    def work() -> None:
        large @ large
        large + 1.0
        large.sum()
        np.linalg.inv(large[:50, :50] + np.eye(50))
        np.concatenate([large, large])
        np.array([[1.0] * 100] * 100)
        large[rows]
        large[rows] = 0.0
        random.normal(size=100_000)
        np.einsum("ij,jk->ik", large, large)

    seen = _seen(tmp_path, work)
    for name in (
        "numpy.matmul",
        "numpy.add",
        "numpy.add.reduce",
        "numpy.linalg.inv",
        "numpy.concatenate",
    ):
        assert name in seen
    assert {
        "numpy.array",
        "ndarray.__getitem__",
        "ndarray.__setitem__",
        "numpy.c_einsum",
    } <= set(seen)
    assert any(name.endswith("Generator.normal") for name in seen)


@pytest.mark.core
def test_small_arrays_pass_unseen(tmp_path: Path) -> None:
    small, buffer = np.ones(8), np.zeros((1000, 8))

    def work() -> None:
        for i in range(100):
            buffer[i] = small + 1
            buffer[i].sum()
            np.concatenate([small, small])
            buffer[i, :4]

    assert _seen(tmp_path, work) == []


@pytest.mark.core
def test_iterating_over_a_large_array_takes_numbers_not_objects(tmp_path: Path) -> None:
    large = np.arange(10_000.0).reshape(100, 100)

    def work() -> None:
        assert [row[0] for row, _ in zip(large, range(3), strict=False)] == [
            0.0,
            100.0,
            200.0,
        ]
        assert len(list(iter(large))) == 100
        assert next(reversed(large))[0] == 9900.0
        assert 5.0 in large

    _seen(tmp_path, work)


@pytest.mark.core
def test_results_and_errors_stay_the_same(tmp_path: Path) -> None:
    large = np.arange(10_000.0).reshape(100, 100)
    expected = large.T @ large

    def work() -> None:
        assert np.array_equal(large.T @ large, expected)
        with pytest.raises(ValueError, match="matmul"):
            large @ np.ones(7)
        with pytest.raises(IndexError):
            large[np.array([1000])]

    assert "numpy.matmul" in _seen(tmp_path, work)


def test_opencv_and_scipy(tmp_path: Path) -> None:
    import cv2
    import scipy.linalg
    import scipy.signal

    image, matrix = np.zeros((210, 160, 3), np.uint8), np.eye(100) + 1

    def work() -> None:
        cv2.resize(image, (84, 84))
        scipy.linalg.inv(matrix)
        scipy.linalg.lapack.dgetrf(matrix)
        scipy.signal.lfilter([1.0], [1.0, -0.99], np.ones(100_000))

    seen = _seen(tmp_path, work)
    assert {"cv2.resize", "scipy.signal._sigtools._linear_filter"} <= set(seen)
    assert "scipy.linalg.lapack.__call__" in seen
    assert any(name.startswith("scipy.linalg._batched_linalg") for name in seen)
