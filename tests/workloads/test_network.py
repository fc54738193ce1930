"""The network: what inference saw step by step is what the learner recomputes from an unroll."""

import numpy as np
import pytest
import torch

from cutaway_workloads.r2d2.config import Config, NetworkConfig
from cutaway_workloads.r2d2.envs import EnvSpec
from cutaway_workloads.r2d2.learner import Batch
from cutaway_workloads.r2d2.network import RecurrentNet, stack_frames
from cutaway_workloads.r2d2.policy import TorchPolicy, exploration
from cutaway_workloads.r2d2.transport import Requests
from cutaway_workloads.r2d2.unrolls import Layout, UnrollStore

IMAGE = EnvSpec((84, 84), "uint8", actions=5)
VECTOR = EnvSpec((3,), "float32", actions=4)


def small(**changes) -> Config:
    return Config(
        actors=3, unroll=6, burn_in=3, network=NetworkConfig(16, 8, 8), **changes
    )


def observe(spec: EnvSpec, random, envs) -> Requests:
    shape = (len(envs), *spec.shape)
    obs = (
        random.integers(0, 255, shape).astype(spec.dtype)
        if spec.image
        else random.normal(size=shape)
    )
    scalars = np.zeros((len(envs), 4), np.float32)
    scalars[:, 0], scalars[:, 1] = (
        random.normal(size=len(envs)),
        random.random(len(envs)) < 0.2,
    )
    return Requests(envs.tolist(), envs, obs.astype(spec.dtype), scalars)


@pytest.mark.parametrize("spec", [IMAGE, VECTOR], ids=["image", "vector"])
@pytest.mark.parametrize("algorithm", ["r2d2", "impala"])
def test_the_learner_recomputes_from_an_unroll_what_inference_computed(spec, algorithm):
    torch.manual_seed(1)
    config, random = small(algorithm=algorithm), np.random.default_rng(1)
    net = RecurrentNet(config, spec)
    policy, store = (
        TorchPolicy(config, net),
        UnrollStore(Layout.of(config, spec), environments=3),
    )
    emitted, met = [], np.zeros(3, np.bool_)
    for number in range(30):
        # Environments arrive in changing company and order, as they do at the server.
        envs = random.permutation(3)[: 1 + number % 3]
        requests = observe(spec, random, envs)
        requests.done[~met[envs]] = 1  # an actor's first observation begins an episode
        met[envs] = True
        if (starting := store.starting(envs)).size:
            store.remember(starting, policy.state(starting))
        actions, output = policy.act(requests)
        step = {"obs": requests.obs, "reward": requests.reward, "done": requests.done}
        for env in store.append(envs, {**step, "action": actions, "output": output}):
            store.finish(
                env,
                lambda unroll: (
                    emitted.append({k: np.copy(v) for k, v in unroll.items()}) is None
                ),
            )
    assert len(emitted) > 4
    unrolls = {name: np.stack([u[name] for u in emitted]) for name in emitted[0]}
    batch = Batch(unrolls, net, torch.device("cpu"))
    with torch.no_grad():
        out = batch.run_after(net, config.overlap)
    assert out.values.numpy() == pytest.approx(
        unrolls["output"].swapaxes(0, 1)[config.overlap :], abs=1e-5
    )


def test_memory_is_reset_where_an_episode_ended_as_if_run_step_by_step():
    torch.manual_seed(2)
    net = RecurrentNet(small(), VECTOR)
    time, batch = 12, 4
    obs, reward = torch.randn(time, batch, 3), torch.randn(time, batch)
    action, done = (
        torch.randint(0, 4, (time, batch)),
        (torch.rand(time, batch) < 0.15).byte(),
    )
    state = (torch.randn(1, batch, 8), torch.randn(1, batch, 8))
    whole = net(obs, action, reward, done, state)
    for b in range(batch):
        h, c = state[0][:, b : b + 1], state[1][:, b : b + 1]
        for t in range(time):
            here = (slice(t, t + 1), slice(b, b + 1))
            if done[t, b]:
                h, c = torch.zeros_like(h), torch.zeros_like(c)
            one = net(obs[here], action[here], reward[here], done[here], (h, c))
            h, c = one.state
            torch.testing.assert_close(one.values[0, 0], whole.values[t, b])


def test_dueling_heads_add_advantages_of_mean_zero_to_the_value():
    torch.manual_seed(3)
    net = RecurrentNet(small(), VECTOR)
    memory = torch.randn(5, 2, 8)
    net.lstm.forward = lambda inputs, state: (memory, state)  # type: ignore[method-assign]
    nothing = torch.zeros(5, 2)
    out = net(
        torch.randn(5, 2, 3),
        nothing.long(),
        nothing,
        nothing,
        (torch.zeros(1, 2, 8),) * 2,
    )
    torch.testing.assert_close(out.values.mean(dim=-1), net.one(memory).squeeze(-1))
    torch.testing.assert_close(out.values.diff(dim=-1), net.each(memory).diff(dim=-1))


def test_frames_are_stacked_and_never_cross_an_episode():
    random = np.random.default_rng(4)
    frames = random.integers(1, 255, (9, 2, 2, 2)).astype(np.uint8)
    previous = random.integers(1, 255, (2, 3, 2, 2)).astype(np.uint8)
    done = (random.random((9, 2)) < 0.25).astype(np.uint8)
    fast = stack_frames(
        torch.tensor(frames), torch.tensor(previous), torch.tensor(done)
    ).numpy()
    for b in range(2):
        line = [*previous[b], *frames[:, b]]
        for t in range(9):
            for age in range(4):
                ended = any(done[s, b] for s in range(max(0, t - age + 1), t + 1))
                wanted = np.zeros((2, 2)) if ended else line[3 + t - age]
                assert (fast[t, b, 3 - age] == wanted).all()


def test_exploration_follows_seeds_schedule():
    assert exploration(3).tolist() == pytest.approx([0.4, 0.4**4.5, 0.4**8])


def test_the_default_network_does_the_work_of_seeds():
    """12.0 million multiply-adds a frame."""
    net = RecurrentNet(Config(), EnvSpec((84, 84), "uint8", actions=18))
    convolutions = 20 * 20 * 32 * 4 * 64 + 9 * 9 * 64 * 32 * 16 + 7 * 7 * 64 * 64 * 9
    linear = sum(w.numel() for n, w in net.named_parameters() if w.dim() == 2)
    assert (convolutions + linear) / 1e6 == pytest.approx(12.0, abs=0.3)
