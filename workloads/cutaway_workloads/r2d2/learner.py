"""The two algorithms: what is done with new unrolls, and one update of the weights."""

from __future__ import annotations

import copy
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn import functional

import cutaway

from .config import Config
from .network import Output, RecurrentNet, stack_frames
from .replay import Replay, mix_priorities
from .shared import Array
from .targets import Transitions, double_q_errors
from .unrolls import Layout, Unrolls
from .vtrace import vtrace

Scalars = dict[str, float]


class Learner(Protocol):
    """`feed` takes new unrolls; `update` trains once they suffice (`ready`). `replay` is None where there is none."""

    @property
    def replay(self) -> Replay | None: ...

    def feed(self, unrolls: Unrolls) -> None: ...

    def ready(self) -> bool: ...

    def update(self) -> Scalars: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Batch:
    """Unrolls on the device, time-major, as the network wants them."""

    def __init__(
        self, unrolls: Unrolls, net: RecurrentNet, device: torch.device
    ) -> None:
        def tensor(name: str) -> Tensor:
            return torch.from_numpy(unrolls[name]).to(device, non_blocking=True)

        self.done, self.reward = tensor("done").T, tensor("reward").T
        self.action, self.output = tensor("action").T, tensor("output").transpose(0, 1)
        self.last_action = torch.cat(
            [tensor("previous_action")[None], self.action[:-1]]
        )
        self.state = (tensor("h")[None], tensor("c")[None])
        obs = tensor("obs").transpose(0, 1)
        self.obs = (
            stack_frames(obs, tensor("previous"), self.done) if net.spec.image else obs
        )

    def run(
        self, net: RecurrentNet, start: int, end: int, state: tuple[Tensor, Tensor]
    ) -> Output:
        """The network over the steps [start, end)."""
        steps = slice(start, end)
        out: Output = net(
            self.obs[steps],
            self.last_action[steps],
            self.reward[steps],
            self.done[steps],
            state,
        )
        return out

    def run_after(self, net: RecurrentNet, burn_in: int) -> Output:
        """The network over the steps after the burn-in, which only brings the memory up to date."""
        state = self.state
        if burn_in:
            with torch.no_grad():
                state = self.run(net, 0, burn_in, state).state
        return self.run(net, burn_in, len(self.done), state)

    def transitions(self, start: int) -> Transitions:
        return Transitions(
            self.action[start:-1], self.reward[start + 1 :], self.done[start + 1 :]
        )


class _Optimised:
    """Network, optimiser and clipping: what both algorithms share."""

    def __init__(self, config: Config, net: RecurrentNet) -> None:
        self.config, self.net, self.device = config, net, torch.device(config.device)
        self.optimiser = torch.optim.Adam(
            net.parameters(), lr=config.learning_rate, eps=config.adam_epsilon
        )
        self.updates = 0

    def _descend(self, loss: Tensor) -> float:
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        norm = torch.nn.utils.clip_grad_norm_(
            self.net.parameters(), self.config.gradient_clip
        )
        self.optimiser.step()
        self.updates += 1
        return float(norm)

    def state_dict(self) -> dict[str, Any]:
        parts = {"net": self.net.state_dict(), "optimiser": self.optimiser.state_dict()}
        return {**parts, "updates": self.updates}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.net.load_state_dict(state["net"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.updates = int(state["updates"])


class R2D2(_Optimised):
    """Recurrent double Q learning from prioritised sequences."""

    def __init__(self, config: Config, net: RecurrentNet, layout: Layout) -> None:
        super().__init__(config, net)
        self.target = copy.deepcopy(net).requires_grad_(False)
        self.replay = Replay(layout, config.replay, config.seed)

    def feed(self, unrolls: Unrolls) -> None:
        with cutaway.operation("replay"):
            self.replay.insert(unrolls, self.initial_priorities(unrolls))

    def ready(self) -> bool:
        return len(self.replay) >= min(
            self.config.replay.minimum, self.config.replay.capacity
        )

    def initial_priorities(self, unrolls: Unrolls) -> Array:
        """From the Q values of inference time, which stand for both networks."""
        start = self.config.burn_in
        output = torch.from_numpy(unrolls["output"]).transpose(0, 1)[start:]
        action, reward = (
            torch.from_numpy(unrolls["action"]).T,
            torch.from_numpy(unrolls["reward"]).T,
        )
        done = torch.from_numpy(unrolls["done"]).T
        transitions = Transitions(
            action[start:-1], reward[start + 1 :], done[start + 1 :]
        )
        errors = self._errors(output, output, transitions)
        return mix_priorities(errors.numpy(), self.config.replay.eta)

    def update(self) -> Scalars:
        with cutaway.operation("replay"):
            sample = self.replay.sample(self.config.batch)
        with cutaway.operation("backpropagation"):
            loss, errors = self.loss(
                sample.unrolls, torch.from_numpy(sample.weights).to(self.device)
            )
            norm = self._descend(loss)
            priorities = mix_priorities(
                errors.detach().cpu().numpy(), self.config.replay.eta
            )
        with cutaway.operation("replay"):
            self.replay.update(sample, priorities)
        if self.updates % self.config.r2d2.target_period == 0:
            with cutaway.operation("sync"):
                self.target.load_state_dict(self.net.state_dict())
        return {
            "loss": float(loss.detach()),
            "gradient_norm": norm,
            "priority": float(priorities.mean()),
        }

    def loss(self, unrolls: Unrolls, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Half the squared TD errors, summed over time, weighted over the batch; and the errors [T, B]."""
        batch = Batch(unrolls, self.net, self.device)
        online = batch.run_after(self.net, self.config.burn_in).values
        with torch.no_grad():
            target = batch.run_after(self.target, self.config.burn_in).values
        errors = self._errors(online, target, batch.transitions(self.config.burn_in))
        return (weights * 0.5 * errors.square().sum(dim=0)).mean(), errors

    def _errors(
        self, online: Tensor, target: Tensor, transitions: Transitions
    ) -> Tensor:
        c = self.config
        return double_q_errors(
            online,
            target,
            transitions,
            c.discount,
            c.r2d2.n_step,
            c.r2d2.value_rescaling,
        )

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "target": self.target.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.target.load_state_dict(state["target"])


class Impala(_Optimised):
    """V-trace actor-critic on fresh unrolls: the queue takes the place of replay."""

    def __init__(self, config: Config, net: RecurrentNet) -> None:
        super().__init__(config, net)
        self.replay = None
        self._fresh: Unrolls | None = None

    def feed(self, unrolls: Unrolls) -> None:
        self._fresh = unrolls

    def ready(self) -> bool:
        return self._fresh is not None

    def update(self) -> Scalars:
        assert self._fresh is not None
        with cutaway.operation("backpropagation"):
            loss, scalars = self.loss(self._fresh)
            norm = self._descend(loss)
        self._fresh = None
        return {"loss": float(loss.detach()), "gradient_norm": norm, **scalars}

    def loss(self, unrolls: Unrolls) -> tuple[Tensor, Scalars]:
        """Policy gradient, value error and entropy bonus, each averaged over steps."""
        c = self.config.impala
        batch = Batch(unrolls, self.net, self.device)
        out = batch.run_after(self.net, 0)
        action, reward, done = batch.transitions(0)
        policy = functional.log_softmax(out.values[:-1], dim=-1)
        behaviour = functional.log_softmax(batch.output[:-1], dim=-1)
        chosen = policy.gather(-1, action.unsqueeze(-1)).squeeze(-1)
        log_rhos = chosen.detach() - behaviour.gather(-1, action.unsqueeze(-1)).squeeze(
            -1
        )
        discounts = self.config.discount * (1.0 - done.float())
        trace = vtrace(
            log_rhos, discounts, reward, out.baseline.detach(), c.rho_clip, c.c_clip
        )
        gradient = -(trace.advantages * chosen).mean()
        value = 0.5 * (trace.targets - out.baseline[:-1]).square().mean()
        entropy = -(policy.exp() * policy).sum(dim=-1).mean()
        loss = gradient + c.baseline_cost * value - c.entropy_cost * entropy
        return loss, {
            "value_error": float(value.detach()),
            "entropy": float(entropy.detach()),
        }
