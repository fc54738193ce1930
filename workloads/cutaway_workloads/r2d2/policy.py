"""The network as the inference server uses it: what it remembers stays on the device."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from .config import Config
from .network import RecurrentNet
from .shared import Array
from .transport import DONE, REWARD, Requests
from .unrolls import Unrolls


class Policy(Protocol):
    """Chooses actions. `state` is what it remembers before its next step, as an unroll stores it."""

    def reset(self, envs: Array) -> None: ...

    def state(self, envs: Array) -> Unrolls: ...

    def act(self, requests: Requests) -> tuple[Array, Array]: ...


class TorchPolicy:
    """LSTM state, frame stack, last action and exploration rate of every environment; shared weights."""

    def __init__(self, config: Config, net: RecurrentNet, greedy: bool = False) -> None:
        self._net, self._device = net, torch.device(config.device)
        spec, count = net.spec, config.environments
        self._q_learning = config.algorithm == "r2d2"
        self._epsilon = (
            torch.full((count,), 0.0, device=self._device)
            if greedy
            else exploration(count).to(self._device)
        )
        self._h = torch.zeros(count, config.network.lstm, device=self._device)
        self._c = torch.zeros_like(self._h)
        self._last_action = torch.zeros(count, dtype=torch.int64, device=self._device)
        frames = (count, spec.stack, *spec.shape) if spec.image else (count, 1, 0)
        self._stack = torch.zeros(frames, dtype=torch.uint8, device=self._device)
        self._greedy = greedy

    @torch.inference_mode()
    def reset(self, envs: Array) -> None:
        index = torch.from_numpy(envs)
        for remembered in (self._h, self._c, self._last_action, self._stack):
            remembered[index] = 0

    @torch.inference_mode()
    def state(self, envs: Array) -> Unrolls:
        index = torch.from_numpy(envs).to(self._device)
        previous = (
            self._stack[index, 1:]
            if self._net.spec.image
            else self._stack.new_zeros(len(envs), 0, 1)
        )
        if not self._net.spec.image:
            previous = previous.expand(-1, -1, self._net.spec.shape[0])
        parts = (self._h[index], self._c[index], previous, self._last_action[index])
        names = ("h", "c", "previous", "previous_action")
        return {
            name: part.cpu().numpy() for name, part in zip(names, parts, strict=True)
        }

    @torch.inference_mode()
    def act(self, requests: Requests) -> tuple[Array, Array]:
        to = self._device
        envs, obs = (
            torch.from_numpy(requests.envs).to(to),
            torch.from_numpy(requests.obs).to(to),
        )
        scalars = torch.from_numpy(requests.scalars).to(to)
        reward, done = scalars[:, REWARD], scalars[:, DONE]
        if self._net.spec.image:
            obs = self._push(envs, obs, done)
        state = (self._h[envs].unsqueeze(0), self._c[envs].unsqueeze(0))
        out = self._net(
            obs[None], self._last_action[envs][None], reward[None], done[None], state
        )
        values = out.values[0]
        action = self._explore(values, envs) if self._q_learning else self._draw(values)
        self._h[envs], self._c[envs] = out.state[0][0], out.state[1][0]
        self._last_action[envs] = action
        return action.cpu().numpy(), values.cpu().numpy()

    def _push(self, envs: Tensor, frames: Tensor, done: Tensor) -> Tensor:
        """Shifts the newest frames in; frames of an earlier episode turn black, as in `stack_frames`."""
        older = self._stack[envs, 1:] * (1 - done.byte())[:, None, None, None]
        stacked = torch.cat([older, frames[:, None]], dim=1)
        self._stack[envs] = stacked
        return stacked

    def _explore(self, values: Tensor, envs: Tensor) -> Tensor:
        random = torch.randint_like(envs, values.shape[-1])
        explore = torch.rand(len(envs), device=self._device) < self._epsilon[envs]
        return torch.where(explore, random, values.argmax(dim=-1))

    def _draw(self, logits: Tensor) -> Tensor:
        if self._greedy:
            return logits.argmax(dim=-1)
        return torch.multinomial(functional.softmax(logits, dim=-1), 1).squeeze(-1)


def exploration(environments: int) -> Tensor:
    """SEED RL's schedule: 0.4 ^ linspace(1, 8, environments)."""
    return 0.4 ** torch.linspace(1.0, 8.0, environments)
