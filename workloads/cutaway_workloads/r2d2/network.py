"""The recurrent network: torso → LSTM with reset on done → dueling Q values, or policy and value."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from .config import Config
from .envs import EnvSpec

State = tuple[Tensor, Tensor]


class Output(NamedTuple):
    """`values`: Q values or logits, [time, batch, actions]; `baseline`: the critic, zero for Q learning."""

    values: Tensor
    baseline: Tensor
    state: State


def image_torso(stack: int, size: int) -> nn.Sequential:
    """SEED RL's convolutions: 32@8×8/4, 64@4×4/2, 64@3×3/1, then a fully connected layer."""
    return nn.Sequential(
        nn.Conv2d(stack, 32, 8, 4),
        nn.ReLU(),
        nn.Conv2d(32, 64, 4, 2),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(3136, size),
        nn.ReLU(),
    )


def vector_torso(width: int, size: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, size), nn.ReLU())


class RecurrentNet(nn.Module):
    """Time-major. Where `done` is set the memory, the last action and the last reward are forgotten first."""

    def __init__(self, config: Config, spec: EnvSpec) -> None:
        super().__init__()
        sizes = config.network
        self.spec, self.dueling = spec, config.algorithm == "r2d2"
        torso = (
            image_torso(spec.stack, sizes.torso)
            if spec.image
            else vector_torso(spec.shape[0], sizes.torso)
        )
        self.torso = torso
        self.lstm = nn.LSTM(sizes.torso + spec.actions + 1, sizes.lstm)
        self.one = nn.Sequential(
            nn.Linear(sizes.lstm, sizes.head), nn.ReLU(), nn.Linear(sizes.head, 1)
        )
        self.each = nn.Sequential(
            nn.Linear(sizes.lstm, sizes.head),
            nn.ReLU(),
            nn.Linear(sizes.head, spec.actions),
        )

    def forward(
        self,
        obs: Tensor,
        last_action: Tensor,
        reward: Tensor,
        done: Tensor,
        state: State,
    ) -> Output:
        """`obs` [T, B, …] (images: stacked bytes), the rest [T, B]; `state`: the memory before step 0."""
        time, batch = done.shape
        keep = 1.0 - done.float()
        flat = obs.flatten(0, 1).float()
        features = self.torso(flat / 255.0 if self.spec.image else flat).view(
            time, batch, -1
        )
        action = functional.one_hot(
            last_action, self.spec.actions
        ).float() * keep.unsqueeze(-1)
        inputs = torch.cat([features, action, (reward * keep).unsqueeze(-1)], dim=-1)
        memory, state = self._remember(inputs, done, keep, state)
        each, one = self.each(memory), self.one(memory)
        if not self.dueling:
            return Output(each, one.squeeze(-1), state)
        values = one + each - each.mean(dim=-1, keepdim=True)
        return Output(values, torch.zeros_like(reward), state)

    def _remember(
        self, inputs: Tensor, done: Tensor, keep: Tensor, state: State
    ) -> tuple[Tensor, State]:
        """Runs the LSTM over the stretches between resets: each is one call of the fast kernel."""
        time = inputs.shape[0]
        resets = torch.nonzero(done.any(dim=1)).flatten().tolist() if time > 1 else [0]
        starts = sorted({0, *resets})
        h, c = state
        pieces = []
        for start, end in zip(starts, [*starts[1:], time], strict=True):
            alive = keep[start].view(1, -1, 1)
            if (
                end - start == 1
            ):  # the kernel for sequences packs its weights anew at each call
                h, c = self._single(inputs[start], h[0] * alive[0], c[0] * alive[0])
                pieces.append(h)
            else:
                out, (h, c) = self.lstm(inputs[start:end], (h * alive, c * alive))
                pieces.append(out)
        return torch.cat(pieces) if len(pieces) > 1 else pieces[0], (h, c)

    def _single(self, inputs: Tensor, h: Tensor, c: Tensor) -> State:
        input_weight, memory_weight, input_bias, memory_bias = self.lstm.all_weights[0]
        h, c = torch.lstm_cell(
            inputs, (h, c), input_weight, memory_weight, input_bias, memory_bias
        )
        return h[None], c[None]


def stack_frames(frames: Tensor, previous: Tensor, done: Tensor) -> Tensor:
    """[T, B, H, W] bytes and the frames before them [B, S − 1, H, W] → [T, B, S, H, W], newest last.

    Frames of an earlier episode are black.
    """
    depth = previous.shape[1]
    line = torch.cat([previous.transpose(0, 1), frames])
    time = frames.shape[0]
    stacked = torch.stack([line[i : i + time] for i in range(depth + 1)], dim=2)
    padded = torch.cat([torch.zeros_like(done[:1]).expand(depth, -1), done]).bool()
    cut = torch.zeros_like(done, dtype=torch.bool)
    for age in range(1, depth + 1):
        cut |= padded[depth - age + 1 : depth - age + 1 + time]
        stacked[:, :, depth - age].masked_fill_(cut[..., None, None], 0)
    return stacked
