"""Traces of real GPUs for tests: a few in tests/data, more where the shared folder beside the project is there."""

from __future__ import annotations

import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "traces"


class Expected(NamedTuple):
    """What an independent computation found in a trace: pieces of device work, API calls, busy nanoseconds."""

    work: int
    calls: int
    busy_ns: dict[str, int]


BUNDLED = {
    ROOT / "tests/data/kineto/hta_cp_simple_add.json.gz": Expected(
        98, 331, {"0": 49758000}
    ),
    ROOT / "tests/data/gemm/tl_h100_bert_small.json.gz": Expected(
        61, 132, {"0": 309437}
    ),
}
MORE = (
    "kineto_hta/hta_neg_queue_rank0.json.gz",
    "kineto_hta/hta_ns_resolution_rank0.json.gz",
    "tracelens/tl_b200_eager.json.gz",
    "tracelens/tl_sglang_decode.json.gz",
)


def traces() -> dict[Path, Expected]:
    """Every trace there is, with what is to be found in it."""
    found = dict(BUNDLED)
    if SHARED.is_dir():
        oracle = json.loads((SHARED / "oracle.json").read_text())
        for name in MORE:
            facts = oracle[name]
            found[SHARED / name] = Expected(
                facts["n_gpu"], facts["n_api"], facts["gpu_busy_by_device_ns"]
            )
    return found


def load(path: Path) -> dict[str, Any]:
    """A Kineto file with its decimals as they are written."""
    with gzip.open(path, "rt") as file:
        loaded: dict[str, Any] = json.load(file, parse_float=Decimal)
    return loaded
