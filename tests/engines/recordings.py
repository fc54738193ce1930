"""What the tests with a real engine share: programs in a folder beside the tiny model, their environment, and what a run holds."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import cutaway
from cutaway.trace.reader import read_run

HERE = Path(__file__).parent
# vLLM for CPUs takes half of the memory for its cache, binds threads to cores, and compiles for a minute, unless told otherwise.
QUIET = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "TORCH_COMPILE_DISABLE": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
}


def prepare(folder: Path, *names: str) -> None:
    """Copy programs of this folder there."""
    for name in ("tiny.py", *names):
        shutil.copy(HERE / name, folder / name)


def told(folder: Path, name: str = "told.json") -> dict[str, float]:
    """What the program counted itself."""
    found: dict[str, float] = json.loads((folder / name).read_text())
    return found


def spent(run: cutaway.analysis.Run) -> Counter[tuple[str, str]]:
    """Nanoseconds by role of a process and operation."""
    found: Counter[tuple[str, str]] = Counter()
    roles = [str(one.log.process.get("role")) for one in run.trace.processes]
    for row in run.breakdown(by=("process", "operation")):
        found[roles[row["process"]], str(row["operation"])] += row["ns"]
    return found


def engine(path: Path) -> list[int]:
    """Processes that told how many sequences they decode."""
    found = []
    for number, process in enumerate(read_run(path).processes):
        names = {entry.get("name") for entry in process.log.others if entry["k"] == "gauge"}  # fmt: skip
        if "sequences" in names:
            found.append(number)
    return found
