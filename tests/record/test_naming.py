"""Plain PyTorch programs without annotations: evaluation, several ranks, programs without an environment."""

from __future__ import annotations

from pathlib import Path

from named import operations, shares
from recorded import notes, one, record, script

import cutaway
from cutaway.reports.digests import digest_of

EVALUATED = """
    import gymnasium as gym, torch
    network = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(network.parameters())

    def episode(env, most):
        x, _ = env.reset(seed=1)
        for _ in range(most):
            with torch.no_grad(): action = int(network(torch.as_tensor(x)).argmax())
            x, _, over, _, _ = env.step(action)
            if over: x, _ = env.reset()

    training, other = gym.make("CartPole-v1"), gym.make("CartPole-v1")
    for iteration in range(12):
        episode(training, 8)
        loss = network(torch.ones(64, 4)).square().mean()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
        if iteration % 6 == 5: episode(other, 20)
"""

EPISODES = """
    import gymnasium as gym, torch
    from torch.distributions import Categorical
    policy = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(policy.parameters())
    env = gym.make("CartPole-v1")
    for episode in range(12):
        (x, _), kept = env.reset(seed=episode), []
        for _ in range(8):
            chosen = Categorical(logits=policy(torch.as_tensor(x)))
            action = chosen.sample()
            kept.append(chosen.log_prob(action))
            x = env.step(int(action))[0]
        loss = -torch.stack(kept).sum()
        optimizer.zero_grad(); loss.backward(); optimizer.step()
"""

LOGGING = """
    import gymnasium as gym, torch
    from gymnasium import spaces
    from torch.utils.tensorboard import SummaryWriter

    class Coin(gym.Env):
        observation_space = action_space = spaces.Discrete(2)
        def reset(self, seed=None, options=None): return 0, {}
        def step(self, action): return 0, 1.0, False, False, {}

    network = torch.nn.Linear(1, 2)
    env, writer, kept = Coin(), SummaryWriter("logs"), torch.zeros(400)
    x, _ = env.reset()
    for number in range(400):
        with torch.no_grad(): action = int(network(torch.ones(1)).argmax())
        x, reward, _, _, _ = env.step(action)
        for _ in range(20): writer.add_scalar("reward", reward, number)
        kept[number] = reward
"""

RANKS = """
    import cutaway, torch, torch.distributed as dist
    dist.init_process_group("gloo")
    weights = torch.nn.Parameter(torch.zeros(8))
    optimizer = torch.optim.SGD([weights], 0.1)
    for _ in range(10):
        optimizer.zero_grad()
        weights.square().sum().backward()
        dist.all_reduce(weights.grad)
        optimizer.step()
        cutaway.step(4)
    seen = [None, None]
    dist.all_gather_object(seen, dist.get_rank())
    assert seen == [0, 1]
    dist.destroy_process_group()
"""


def test_what_a_logger_does_before_a_step_is_stored_is_no_replay(
    tmp_path: Path,
) -> None:
    script(tmp_path, LOGGING)
    record(tmp_path, "train.py")
    assert notes(tmp_path / "run.cutaway") == []
    found = shares(tmp_path / "run.cutaway")
    assert found[""] > 5 * found["replay"]
    assert {"simulation", "inference"} <= found.keys()


def test_steps_of_another_environment_are_evaluation(tmp_path: Path) -> None:
    script(tmp_path, EVALUATED)
    (seen,) = record(tmp_path, "train.py")
    assert notes(tmp_path / "run.cutaway") == []
    run = cutaway.open(tmp_path / "run.cutaway")
    named = operations(tmp_path / "run.cutaway")
    assert named["evaluation"] == 2
    assert named["backpropagation"] == 12
    assert run.swept.pace.steps.tolist() == [12 * 8]
    assert seen.iterations == 12  # the evaluation at the end begins none


def test_an_evaluation_after_the_last_update_belongs_to_shut_down(
    tmp_path: Path,
) -> None:
    script(tmp_path, EVALUATED)
    record(tmp_path, "train.py")
    run = cutaway.open(tmp_path / "run.cutaway")
    shut_down = run.shutdown().breakdown(by="operation")["operation"].tolist()
    assert "evaluation" in shut_down and "backpropagation" not in shut_down
    assert "evaluation" in run.steady().breakdown(by="operation")["operation"]
    whole = run.breakdown(by="process")["raw_ns"].sum()
    parts = (run.startup(), run.steady(), run.shutdown())
    assert sum(part.breakdown(by="process")["raw_ns"].sum() for part in parts) == whole


def test_a_policy_that_acts_with_gradients_acts(tmp_path: Path) -> None:
    script(tmp_path, EPISODES)
    (seen,) = record(tmp_path, "train.py")
    run = cutaway.open(tmp_path / "run.cutaway")
    assert seen.iterations == 12
    named = operations(tmp_path / "run.cutaway")
    assert named["backpropagation"] == 12
    assert named["inference"] >= 12 * 8
    networks = [
        row for row in run.transitions() if row["function"] == "torch._nn.linear"
    ]
    assert {row["operation"] for row in networks} == {"inference"}


def test_steps_in_a_function_that_evaluates_are_evaluation(tmp_path: Path) -> None:
    text = EVALUATED.replace("episode(other, 20)", "evaluate()")
    script(
        tmp_path,
        text.replace(
            "    training, other",
            "    def evaluate(): episode(training, 20)\n    training, other",
        ),
    )
    record(tmp_path, "train.py")
    run = cutaway.open(tmp_path / "run.cutaway")
    assert operations(tmp_path / "run.cutaway")["evaluation"] == 2
    assert run.swept.pace.steps.tolist() == [12 * 8]


def test_collectives_are_sync_on_every_rank_and_updates_are_iterations(
    tmp_path: Path,
) -> None:
    script(tmp_path, RANKS)
    seen = record(
        tmp_path,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc_per_node=2",
        "train.py",
    )
    for rank in (0, 1):
        process = one(seen, name=f"rank {rank}")
        assert process.operations["sync"] == 11
        assert process.iterations == 10
    shown = digest_of(cutaway.open(tmp_path / "run.cutaway"))
    assert (shown.pace.iterations, shown.pace.steps) == (
        9,
        2 * 9 * 4,
    )  # without the start-up, of both ranks


def test_the_minibatches_of_a_rollout_are_one_iteration(tmp_path: Path) -> None:
    """A simulator of torch tensors that nothing gives away: the first action after an update begins a pass."""
    script(
        tmp_path,
        """
    import torch
    network = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.Adam(network.parameters())

    def swing(state, action):
        return state + 0.01 * torch.cat([state[:, 1:], state[:, :1].sin() + action], 1)

    state = torch.zeros(64, 2)
    for iteration in range(6):
        with torch.no_grad():
            for _ in range(24):
                state = swing(state, network(state))
        for minibatch in range(8):
            optimizer.zero_grad()
            network(state).square().mean().backward()
            optimizer.step()
    """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 6


def test_without_rollouts_each_update_is_an_iteration(tmp_path: Path) -> None:
    script(
        tmp_path,
        """
    import torch
    network, target = torch.nn.Linear(2, 1), torch.nn.Linear(2, 1)
    optimizer = torch.optim.Adam(network.parameters())
    for update in range(8):
        with torch.no_grad():
            wanted = target(torch.ones(4, 2))
        optimizer.zero_grad()
        (network(torch.ones(4, 2)) - wanted).square().mean().backward()
        optimizer.step()
    """,
    )
    (seen,) = record(tmp_path, "train.py")
    assert seen.iterations == 8
