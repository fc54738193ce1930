"""PyTorch, eager."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from .agent import Agent, Batch, Floats, Layers, Settings, Weights

torch.set_num_threads(1)


class BackendAgent(Agent):
    """Modules and optimizers, step by step."""

    def __init__(self, settings: Settings, weights: Weights) -> None:
        super().__init__(settings)
        self.actor = _network(weights.actor, nn.Tanh())
        self.critics = nn.ModuleList(_network(layers) for layers in weights.critics)
        self.target_actor, self.target_critics = (
            copy.deepcopy(self.actor),
            copy.deepcopy(self.critics),
        )
        self.actor_optimizer, self.critic_optimizer = (
            torch.optim.Adam(
                network.parameters(), lr=settings.learning_rate, eps=settings.epsilon
            )
            for network in (self.actor, self.critics)
        )

    def act(self, observation: Floats) -> Floats:
        with torch.no_grad():
            return self.actor(torch.from_numpy(observation)[None])[0].numpy()  # type: ignore[no-any-return]

    def update(self, batch: Batch, with_actor: bool) -> tuple[Any, Any]:
        tensors = tuple(torch.from_numpy(column) for column in batch)
        critic_loss = self.update_critics(*tensors)
        if not with_actor:
            return critic_loss, 0.0
        actor_loss = self.update_actor(tensors[0])
        self.update_targets()
        return critic_loss, actor_loss

    def update_critics(
        self, observation: Tensor, action: Tensor, reward: Tensor, following: Tensor, ended: Tensor, noise: Tensor
    ) -> Tensor:  # fmt: skip
        s = self.settings
        with torch.no_grad():
            smoothing = (s.smoothing * noise).clamp(
                -s.smoothing_limit, s.smoothing_limit
            )
            next_action = (self.target_actor(following) + smoothing).clamp(-1, 1)
            inputs = torch.cat([following, next_action], 1)
            next_value = torch.stack(
                [critic(inputs) for critic in self.target_critics]
            ).amin(0)
            target = reward + s.discount * (1 - ended) * next_value
        inputs = torch.cat([observation, action], 1)
        loss = torch.stack(
            [mse_loss(critic(inputs), target) for critic in self.critics]
        ).sum()
        self.critic_optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.critic_optimizer.step()
        return loss.detach()

    def update_actor(self, observation: Tensor) -> Tensor:
        loss: Tensor = -self.critics[0](
            torch.cat([observation, self.actor(observation)], 1)
        ).mean()
        self.actor_optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.actor_optimizer.step()
        return loss.detach()

    @torch.no_grad()
    def update_targets(self) -> None:
        pairs = ((self.target_actor, self.actor), (self.target_critics, self.critics))
        for target, network in pairs:
            for old, new in zip(target.parameters(), network.parameters(), strict=True):
                old.lerp_(new, self.settings.polyak)

    def weights(self) -> Weights:
        return Weights(
            _layers(self.actor), [_layers(critic) for critic in self.critics]
        )


def _network(layers: Layers, *last: nn.Module) -> nn.Sequential:
    modules: list[nn.Module] = []
    for weight, bias in layers:
        linear = nn.Linear(*weight.shape)
        linear.weight = nn.Parameter(torch.from_numpy(np.ascontiguousarray(weight.T)))
        linear.bias = nn.Parameter(torch.from_numpy(bias.copy()))
        modules += [linear, nn.ReLU()]
    return nn.Sequential(*modules[:-1], *last)


def _layers(network: nn.Module) -> Layers:
    return [(m.weight.detach().numpy().T, m.bias.detach().numpy()) for m in network.modules() if isinstance(m, nn.Linear)]  # fmt: skip
