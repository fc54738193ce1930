"""`cutaway attach` on a plain PyTorch loop: its time has names, though it was built before anybody looked."""

from __future__ import annotations

from pathlib import Path

from recorded import cutaway, read
from test_attach import ends, running

import cutaway as product

LOOP = """
    import select, sys
    import gymnasium, numpy as np, torch

    class Counter(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (4,))
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, seed=None, options=None):
            self.time = 0
            return np.zeros(4, np.float32), {}

        def step(self, action):
            self.time += 1
            return np.full(4, self.time / 50, np.float32), 1.0, self.time >= 50, False, {}

    torch.manual_seed(0)
    env = Counter()
    net = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
    adam = torch.optim.Adam(net.parameters())
    before = torch.optim.Adam.step, Counter.step, torch.nn.Module.__call__, torch.autograd.backward, torch.save
    seen, _ = env.reset()
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        batch = []
        for _ in range(16):
            with torch.no_grad():
                action = int(net(torch.as_tensor(seen)).argmax())
            seen, _, ended, _, _ = env.step(action)
            batch.append(seen)
            if ended:
                seen, _ = env.reset()
        loss = net(torch.as_tensor(np.stack(batch))).square().mean()
        adam.zero_grad()
        loss.backward()
        adam.step()
    after = torch.optim.Adam.step, Counter.step, torch.nn.Module.__call__, torch.autograd.backward, torch.save
    print([a is b for a, b in zip(after, before)], bool(torch.isfinite(loss)))
"""


def test_a_plain_loop_has_names(tmp_path: Path) -> None:
    with running(tmp_path, LOOP) as program:
        done = cutaway(
            "attach", program.pid, "--for", "3s", "-o", "a.cutaway", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert ends(program) == "[True, True, True, True, True] True\n"
    for operation in ("backpropagation", "inference", "simulation"):
        assert operation in done.stderr
    (seen,) = read(tmp_path / "a.cutaway")
    assert seen.iterations > 2 and seen.steps > 16
    cells = product.open(str(tmp_path / "a.cutaway")).breakdown(
        by=("operation", "layer")
    )
    named = {(row["operation"], row["layer"]) for row in cells if row["ns"] > 0}
    assert {
        ("backpropagation", "backend"),
        ("inference", "backend"),
        ("simulation", "python"),
    } <= named
    unnamed = sum(row["ns"] for row in cells if not row["operation"])
    assert unnamed < 0.2 * sum(row["ns"] for row in cells)
