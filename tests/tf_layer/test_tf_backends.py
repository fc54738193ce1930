"""TensorFlow eager, traced and as a session's graph make the same updates as PyTorch."""

from __future__ import annotations

import pytest
from backend_runs import assert_equal, outcome

from cutaway_workloads.backends.agent import ALGORITHMS


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_tensorflow_and_pytorch_make_the_same_updates(algorithm: str) -> None:
    eager = outcome("torch", algorithm)
    for backend in ("tf-eager", "tf-function", "tf-graph"):
        assert_equal(eager, outcome(backend, algorithm))
