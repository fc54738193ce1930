"""V-trace: off-policy corrected value targets and policy-gradient advantages (IMPALA). Time-major."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class VTrace(NamedTuple):
    """Targets of the critic and advantages of the actor, both [T, B] and without gradient."""

    targets: Tensor
    advantages: Tensor


@torch.no_grad()
def vtrace(
    log_rhos: Tensor,
    discounts: Tensor,
    rewards: Tensor,
    values: Tensor,
    rho_clip: float,
    c_clip: float,
) -> VTrace:
    """`values` is [T + 1, B]: the last row bootstraps. `discounts` are 0 where an episode ended."""
    rhos = torch.exp(log_rhos)
    clipped, traces = rhos.clamp(max=rho_clip), rhos.clamp(max=c_clip)
    errors = clipped * (rewards + discounts * values[1:] - values[:-1])
    correction = torch.zeros_like(values[0])
    corrections = torch.empty_like(rewards)
    for t in range(rewards.shape[0] - 1, -1, -1):
        correction = errors[t] + discounts[t] * traces[t] * correction
        corrections[t] = correction
    targets = values[:-1] + corrections
    after = torch.cat([targets[1:], values[-1:]])
    return VTrace(targets, clipped * (rewards + discounts * after - values[:-1]))
