"""Layer native: C parts of the standard library that work on whole objects."""

from __future__ import annotations

import bz2
import hashlib
import io
import json
import lzma
import pickle
import zlib
from pathlib import Path

import pytest
from recorded import record, script
from recorded_calls import calls, recording

import cutaway
from cutaway.record import layers

pytestmark = pytest.mark.core
OBJECT = [{"state": [0.5] * 50, "action": number} for number in range(100)]

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


def test_packing_unpacking_and_compressing_is_native(tmp_path: Path) -> None:
    layers.install()
    with recording(tmp_path):
        packed = pickle.dumps(OBJECT)
        assert pickle.loads(packed) == OBJECT
        pickle.Pickler(io.BytesIO()).dump(OBJECT)
        assert zlib.decompress(zlib.compress(packed)) == packed
        bz2.compress(packed)
        lzma.compress(packed)
        assert json.loads(json.dumps(OBJECT)) == OBJECT
        digest = hashlib.sha256()
        digest.update(packed * 10)
    seen = {call.fn for call in calls(tmp_path, "native")}
    assert {"pickle.dumps", "pickle.loads", "pickle.Pickler.dump"} <= seen
    assert {"zlib.compress", "zlib.decompress", "hashlib.HASH.update"} <= seen
    assert {"bz2.BZ2Compressor.compress", "lzma.LZMACompressor.compress"} <= seen
    assert {"json.make_scanner.__call__", "json.make_encoder.__call__"} <= seen


def test_small_objects_stay_python(tmp_path: Path) -> None:
    layers.install()
    with recording(tmp_path):
        for _ in range(200):
            zlib.crc32(b"a")
    assert len(calls(tmp_path, "native")) < 100


def test_a_memory_that_packs_is_not_bound_by_its_python(tmp_path: Path) -> None:
    script(tmp_path, PACKING)
    record(tmp_path, "train.py")
    layers_of = cutaway.open(tmp_path / "run.cutaway").breakdown(by="layer")
    times = {row["layer"]: row["ns"] for row in layers_of}
    assert times["native"] > times["python"]
