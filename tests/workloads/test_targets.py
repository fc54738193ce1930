"""R2D2's targets against explicit loops over single numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutaway_workloads.r2d2.targets import (
    Transitions,
    double_q_errors,
    n_step_returns,
    rescale,
    unscale,
)

EPSILON = 1e-3


def slow_rescale(x: float) -> float:
    return math.copysign(math.sqrt(abs(x) + 1) - 1, x) + EPSILON * x


def slow_unscale(y: float) -> float:
    """Bisection on the definition: independent of the closed form."""
    low, high = -1e7, 1e7
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if slow_rescale(middle) < y else (low, middle)
    return (low + high) / 2


def slow_return(reward, done, bootstrap, discount, n, t):
    total, weight = 0.0, 1.0
    for k in range(n):
        if t + k >= len(reward):
            break
        total += weight * reward[t + k]
        if done[t + k]:
            return total
        weight *= discount
    return total + weight * bootstrap[min(t + n, len(reward)) - 1]


@given(st.floats(-1e4, 1e4))
def test_rescaling_is_the_definition_and_is_undone(x):
    y = float(rescale(torch.tensor(x, dtype=torch.float64), EPSILON))
    assert y == pytest.approx(slow_rescale(x), abs=1e-9)
    assert float(
        unscale(torch.tensor(y, dtype=torch.float64), EPSILON)
    ) == pytest.approx(x, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("y", [-40.0, -1.0, -0.01, 0.0, 0.3, 7.0, 60.0])
def test_unscaling_agrees_with_bisection(y):
    assert float(unscale(torch.tensor(y), EPSILON)) == pytest.approx(
        slow_unscale(y), rel=1e-5, abs=1e-5
    )


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 7), st.integers(0, 2**31))
def test_n_step_returns_agree_with_a_loop(time, n, seed):
    random = np.random.default_rng(seed)
    reward, bootstrap = random.normal(size=(2, time, 3))
    done = random.random((time, 3)) < 0.3
    fast = n_step_returns(
        torch.tensor(reward), torch.tensor(done), torch.tensor(bootstrap), 0.9, n
    )
    for t in range(time):
        for b in range(3):
            slow = slow_return(reward[:, b], done[:, b], bootstrap[:, b], 0.9, n, t)
            assert float(fast[t, b]) == pytest.approx(slow, abs=1e-12)


def test_double_q_errors_choose_with_one_network_and_value_with_the_other():
    random = np.random.default_rng(3)
    time, batch, actions, n, discount = 9, 4, 3, 5, 0.997
    online, target = (random.normal(size=(2, time + 1, batch, actions)) * 3).astype(
        np.float32
    )
    action = random.integers(0, actions, (time, batch))
    reward = random.normal(size=(time, batch)).astype(np.float32)
    done = random.random((time, batch)) < 0.2
    transitions = Transitions(
        torch.tensor(action), torch.tensor(reward), torch.tensor(done)
    )
    errors = double_q_errors(
        torch.tensor(online), torch.tensor(target), transitions, discount, n, EPSILON
    )
    for b in range(batch):
        ahead = [
            slow_unscale(float(target[t + 1, b, online[t + 1, b].argmax()]))
            for t in range(time)
        ]
        for t in range(time):
            wanted = slow_rescale(
                slow_return(reward[:, b], done[:, b], ahead, discount, n, t)
            )
            assert float(errors[t, b]) == pytest.approx(
                wanted - float(online[t, b, action[t, b]]), abs=2e-4
            )
