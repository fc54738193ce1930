"""One update of each algorithm against a slow computation with single steps and plain loops."""

import copy

import numpy as np
import pytest
import torch
from test_targets import slow_rescale, slow_return, slow_unscale

from cutaway_workloads.r2d2.config import (
    Config,
    NetworkConfig,
    R2D2Config,
    ReplayConfig,
)
from cutaway_workloads.r2d2.envs import EnvSpec
from cutaway_workloads.r2d2.learner import R2D2, Impala
from cutaway_workloads.r2d2.network import RecurrentNet
from cutaway_workloads.r2d2.unrolls import Layout

SPEC = EnvSpec((3,), "float32", actions=4)
CONFIG = Config(
    unroll=7,
    burn_in=4,
    batch=5,
    network=NetworkConfig(12, 6, 8),
    replay=ReplayConfig(capacity=8, minimum=5),
    r2d2=R2D2Config(n_step=5, target_period=2),
)


def make_unrolls(config: Config, count: int, seed: int):
    random, layout = np.random.default_rng(seed), Layout.of(config, SPEC)
    unrolls = layout.zeros(count)
    for name in ("obs", "reward", "output", "h", "c"):
        unrolls[name][:] = random.normal(size=unrolls[name].shape)
    unrolls["done"][:] = random.random(unrolls["done"].shape) < 0.15
    unrolls["action"][:] = random.integers(0, 4, unrolls["action"].shape)
    unrolls["previous_action"][:] = random.integers(0, 4, count)
    return unrolls


def slow_values(net: RecurrentNet, unrolls, row: int):
    """The network's values at every step of one unroll, one call a step."""
    state = tuple(torch.tensor(unrolls[name][row])[None, None] for name in ("h", "c"))
    last, values = unrolls["previous_action"][row], []
    for t in range(unrolls["reward"].shape[1]):
        done = bool(unrolls["done"][row, t])
        if done:
            state = tuple(torch.zeros_like(part) for part in state)
        out = net(
            torch.tensor(unrolls["obs"][row, t])[None, None],
            torch.tensor([[last]]),
            torch.tensor([[unrolls["reward"][row, t]]]),
            torch.tensor([[float(done)]]),
            state,
        )
        state, last = out.state, unrolls["action"][row, t]
        values.append(out.values[0, 0])
    return values


def make_r2d2(seed: int = 0) -> R2D2:
    torch.manual_seed(seed)
    learner = R2D2(CONFIG, RecurrentNet(CONFIG, SPEC), Layout.of(CONFIG, SPEC))
    with torch.no_grad():
        for (
            parameter
        ) in learner.target.parameters():  # otherwise double Q would be invisible
            parameter.add_(0.1 * torch.randn_like(parameter))
    return learner


def slow_errors(online, target, unrolls, row: int):
    """TD errors of the trained steps from values at every step."""
    start, epsilon = CONFIG.burn_in, CONFIG.r2d2.value_rescaling
    assert epsilon == 1e-3
    steps = range(start, CONFIG.length - 1)
    reward = [float(unrolls["reward"][row, t + 1]) for t in steps]
    done = [bool(unrolls["done"][row, t + 1]) for t in steps]
    ahead = [
        slow_unscale(float(target[t + 1][int(online[t + 1].argmax())])) for t in steps
    ]
    errors = []
    for i, t in enumerate(steps):
        wanted = slow_rescale(
            slow_return(reward, done, ahead, CONFIG.discount, CONFIG.r2d2.n_step, i)
        )
        errors.append(wanted - float(online[t][unrolls["action"][row, t]]))
    return errors


def test_the_loss_is_the_weighted_sum_of_squared_errors_after_burn_in():
    learner, unrolls = make_r2d2(), make_unrolls(CONFIG, 5, seed=1)
    weights = torch.tensor([1.0, 0.5, 0.25, 0.8, 0.1])
    loss, errors = learner.loss(unrolls, weights)
    total = 0.0
    for row in range(5):
        with torch.no_grad():
            values = [
                slow_values(net, unrolls, row) for net in (learner.net, learner.target)
            ]
        slow = slow_errors(*values, unrolls, row)
        assert errors[:, row].tolist() == pytest.approx(slow, abs=1e-3)
        total += float(weights[row]) * 0.5 * sum(e * e for e in slow) / 5
    assert float(loss.detach()) == pytest.approx(total, rel=1e-3)


def test_burn_in_sets_the_memory_but_no_gradient_flows_through_it():
    learner, unrolls = make_r2d2(), make_unrolls(CONFIG, 5, seed=2)
    unrolls["done"][:] = 0
    before, _ = learner.loss(unrolls, torch.ones(5))
    unrolls["obs"][:, 0] += 1.0
    after, _ = learner.loss(unrolls, torch.ones(5))
    assert float(before.detach()) != float(after.detach())

    weight = learner.net.lstm.weight_hh_l0
    (fast,) = torch.autograd.grad(after, weight)
    total = torch.zeros(())
    for row in range(5):
        with torch.no_grad():
            target = slow_values(learner.target, unrolls, row)
            burnt = slow_values(learner.net, unrolls, row)
        tail = {name: array[row : row + 1] for name, array in unrolls.items()}
        state = _state_after_burn_in(learner.net, tail)
        values = [*burnt[: CONFIG.burn_in], *slow_values(learner.net, state, 0)]
        for i, error in enumerate(
            slow_errors([v.detach() for v in values], target, unrolls, row)
        ):
            t = CONFIG.burn_in + i
            wanted = error + float(values[t][unrolls["action"][row, t]].detach())
            total = (
                total + 0.5 * (wanted - values[t][unrolls["action"][row, t]]) ** 2 / 5
            )
    (slow,) = torch.autograd.grad(total, weight)
    torch.testing.assert_close(fast, slow, rtol=2e-3, atol=2e-3)


def _state_after_burn_in(net: RecurrentNet, unroll):
    """The unroll without its burn-in, starting from the memory the burn-in leaves."""
    cut = CONFIG.burn_in
    batch_state = (torch.tensor(unroll["h"])[None], torch.tensor(unroll["c"])[None])
    last = np.concatenate(
        [unroll["previous_action"][:, None], unroll["action"][:, : cut - 1]], axis=1
    )
    arrays = [
        np.swapaxes(a[:, :cut], 0, 1)
        for a in (unroll["obs"], last, unroll["reward"], unroll["done"])
    ]
    with torch.no_grad():
        h, c = net(*[torch.tensor(a) for a in arrays], batch_state).state
    rest = {
        name: unroll[name][:, cut:]
        for name in ("obs", "reward", "done", "action", "output")
    }
    return {
        **rest,
        "h": h[0].numpy(),
        "c": c[0].numpy(),
        "previous_action": unroll["action"][:, cut - 1],
    }


def test_initial_priorities_come_from_the_q_values_of_inference_time():
    learner, unrolls = make_r2d2(), make_unrolls(CONFIG, 3, seed=3)
    fast = learner.initial_priorities(unrolls)
    for row in range(3):
        values = [torch.tensor(v) for v in unrolls["output"][row]]
        absolute = np.abs(slow_errors(values, values, unrolls, row))
        assert fast[row] == pytest.approx(
            0.9 * absolute.max() + 0.1 * absolute.mean(), abs=1e-3
        )


def test_the_target_network_follows_every_second_update_and_training_lowers_the_loss():
    learner = make_r2d2()
    learner.feed(make_unrolls(CONFIG, 5, seed=4))
    first = learner.update()["loss"]
    assert not torch.equal(
        learner.target.lstm.weight_hh_l0, learner.net.lstm.weight_hh_l0
    )
    learner.update()
    assert torch.equal(learner.target.lstm.weight_hh_l0, learner.net.lstm.weight_hh_l0)
    losses = [learner.update()["loss"] for _ in range(60)]
    assert np.mean(losses[-10:]) < first


def test_a_learner_restored_from_its_state_goes_on_identically():
    one, other = make_r2d2(seed=1), make_r2d2(seed=2)
    one.feed(make_unrolls(CONFIG, 5, seed=5))
    one.update()
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    unrolls, weights = make_unrolls(CONFIG, 5, seed=6), torch.ones(5)
    for learner in (one, other):
        learner._descend(learner.loss(unrolls, weights)[0])
    for mine, theirs in zip(one.net.parameters(), other.net.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_gradients_are_clipped():
    learner = make_r2d2()
    unrolls = make_unrolls(CONFIG, 5, seed=7)
    unrolls["reward"][:] *= 1e4
    norm = learner._descend(learner.loss(unrolls, torch.ones(5))[0])
    clipped = torch.sqrt(sum(p.grad.square().sum() for p in learner.net.parameters()))
    assert norm > CONFIG.gradient_clip
    assert float(clipped) == pytest.approx(CONFIG.gradient_clip, rel=1e-3)


def test_impala_raises_the_probability_of_the_action_that_paid():
    config = Config(
        algorithm="impala",
        unroll=6,
        batch=4,
        network=NetworkConfig(12, 6, 8),
        learning_rate=5e-3,
    )
    torch.manual_seed(3)
    learner = Impala(config, RecurrentNet(config, SPEC))
    random = np.random.default_rng(8)
    unrolls = Layout.of(config, SPEC).zeros(32)
    unrolls["obs"][:] = random.normal(size=unrolls["obs"].shape)
    unrolls["action"][:] = random.integers(0, 4, unrolls["action"].shape)
    unrolls["reward"][:, 1:] = unrolls["action"][:, :-1] == 2
    unrolls["done"][:] = 1
    for _ in range(60):
        learner.feed(unrolls)
        assert learner.ready()
        learner.update()
    values = torch.stack(slow_values(learner.net, unrolls, 0)).softmax(dim=-1)
    assert float(values[:, 2].mean()) > 0.6
