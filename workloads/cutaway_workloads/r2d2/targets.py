"""What R2D2 learns from: value rescaling, n-step double Q targets, TD errors. All tensors are time-major."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


def rescale(x: Tensor, epsilon: float) -> Tensor:
    """h(x) = sign(x)(√(|x| + 1) − 1) + εx: squashes returns, so that rewards need no clipping."""
    return torch.sign(x) * (torch.sqrt(torch.abs(x) + 1.0) - 1.0) + epsilon * x


def unscale(y: Tensor, epsilon: float) -> Tensor:
    """The inverse of `rescale`; computed in double precision, where the root cancels badly."""
    if epsilon == 0.0:
        return torch.sign(y) * ((torch.abs(y) + 1.0) ** 2 - 1.0)
    wide = y.double()
    root = torch.sqrt(1.0 + 4.0 * epsilon * (torch.abs(wide) + 1.0 + epsilon)) - 1.0
    return (torch.sign(wide) * ((root / (2.0 * epsilon)) ** 2 - 1.0)).to(y.dtype)


def n_step_returns(
    reward: Tensor, done: Tensor, bootstrap: Tensor, discount: float, n: int
) -> Tensor:
    """Discounted sum of the next n rewards plus the value n steps ahead, nothing crossing an episode's end.

    `reward[t]` and `done[t]` follow action t and `bootstrap[t]` is the value of the state it led to. Near
    the end of the sequence fewer than n steps are used.
    """
    time = reward.shape[0]
    total = torch.zeros_like(reward)
    weight = torch.ones_like(reward)
    for k in range(min(n, time)):
        total[: time - k] += weight[: time - k] * reward[k:]
        weight[: time - k] *= discount * (1.0 - done[k:].to(reward.dtype))
    last = torch.clamp(torch.arange(time, device=reward.device) + n - 1, max=time - 1)
    return total + weight * bootstrap[last]


class Transitions(NamedTuple):
    """Rewards and ends as they follow the actions, [T, B] each, from the steps t = 0 … T of an unroll."""

    action: Tensor
    reward: Tensor
    done: Tensor


def double_q_errors(
    online: Tensor,
    target: Tensor,
    transitions: Transitions,
    discount: float,
    n: int,
    epsilon: float,
) -> Tensor:
    """TD errors [T, B] in the rescaled space; `online` and `target` are Q values [T + 1, B, actions]."""
    with torch.no_grad():
        best = online[1:].argmax(dim=-1, keepdim=True)
        ahead = unscale(target[1:].gather(-1, best).squeeze(-1), epsilon)
        returns = n_step_returns(
            transitions.reward, transitions.done, ahead, discount, n
        )
        wanted = rescale(returns, epsilon)
    chosen = online[:-1].gather(-1, transitions.action.unsqueeze(-1)).squeeze(-1)
    return wanted - chosen
