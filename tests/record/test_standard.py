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
from recorded_calls import calls, recording

from cutaway.record import layers

pytestmark = pytest.mark.core
OBJECT = [{"state": [0.5] * 50, "action": number} for number in range(100)]


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
