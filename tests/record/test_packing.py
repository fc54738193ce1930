"""A replay memory that packs what it keeps: the C part of the standard library that does it is not Python."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script

import cutaway

PACKING = """
    import gymnasium as gym, pickle, random, zlib
    from gymnasium import spaces

    class Coin(gym.Env):
        observation_space = action_space = spaces.Discrete(2)
        def reset(self, seed=None, options=None): return 0, {}
        def step(self, action): return 0, 1.0, False, False, {}

    class Memory:
        def __init__(self): self.kept = []
        def add(self, seen):
            self.kept.append(zlib.compress(pickle.dumps([dict(seen) for _ in range(100)])))
        def sample(self, size):
            drawn = [pickle.loads(zlib.decompress(one)) for one in random.choices(self.kept, k=size)]
            return drawn, drawn

    env, memory = Coin(), Memory()
    env.reset()
    for number in range(300):
        env.step(1)
        memory.add({key: float(number) for key in range(50)})
        memory.sample(4)
"""


def test_a_memory_that_packs_is_not_bound_by_its_python(tmp_path: Path) -> None:
    script(tmp_path, PACKING)
    record(tmp_path, "train.py")
    layers_of = cutaway.open(tmp_path / "run.cutaway").breakdown(by="layer")
    times = {row["layer"]: row["ns"] for row in layers_of}
    assert times["native"] > times["python"]
