"""V-trace against its definition: a sum over the rest of the sequence for every step."""

import numpy as np
import pytest
import torch

from cutaway_workloads.r2d2.vtrace import vtrace


def slow_target(t, log_rhos, discounts, rewards, values, rho_clip, c_clip):
    total, product = values[t], 1.0
    for s in range(t, len(rewards)):
        rho = min(rho_clip, np.exp(log_rhos[s]))
        total += product * rho * (rewards[s] + discounts[s] * values[s + 1] - values[s])
        product *= discounts[s] * min(c_clip, np.exp(log_rhos[s]))
    return total


@pytest.mark.parametrize("rho_clip, c_clip", [(1.0, 1.0), (2.0, 0.7), (0.5, 0.5)])
def test_targets_and_advantages_follow_the_definition(rho_clip, c_clip):
    random = np.random.default_rng(5)
    time, batch = 8, 3
    log_rhos, rewards = random.normal(size=(2, time, batch))
    values = random.normal(size=(time + 1, batch))
    discounts = 0.95 * (random.random((time, batch)) > 0.25)
    inputs = [torch.tensor(a) for a in (log_rhos, discounts, rewards, values)]
    fast = vtrace(*inputs, rho_clip, c_clip)
    for b in range(batch):
        row = (
            log_rhos[:, b],
            discounts[:, b],
            rewards[:, b],
            values[:, b],
            rho_clip,
            c_clip,
        )
        targets = [slow_target(t, *row) for t in range(time)] + [values[-1, b]]
        for t in range(time):
            assert float(fast.targets[t, b]) == pytest.approx(targets[t], abs=1e-10)
            rho = min(rho_clip, np.exp(log_rhos[t, b]))
            advantage = rho * (
                rewards[t, b] + discounts[t, b] * targets[t + 1] - values[t, b]
            )
            assert float(fast.advantages[t, b]) == pytest.approx(advantage, abs=1e-10)


def test_on_policy_targets_are_discounted_returns():
    rewards = torch.ones(4, 1)
    trace = vtrace(
        torch.zeros(4, 1), torch.full((4, 1), 0.5), rewards, torch.zeros(5, 1), 1.0, 1.0
    )
    assert trace.targets.flatten().tolist() == [1.875, 1.75, 1.5, 1.0]
