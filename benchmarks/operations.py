"""What an operation costs, and what an event takes on disk. `python -m benchmarks.operations`

Nanoseconds are CPU time of the thread, the least of many rounds, less the empty loop. Bytes are those of a real run: PPO on
CartPole with Stable-Baselines3, all layers recorded, if it is installed.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from cutaway import _recorder
from cutaway.trace.reader import ProcessTrace, read_run
from cutaway.vocabulary import Kind

ROUNDS, CALLS = 60, 20_000

LOOPS = {
    'with operation("name")': 'with operation("name"): pass',
    "with a kept operation": "with kept: pass",
    "decorated function": "decorated()",
    "bare function": "bare()",
    "step()": "step()",
}

PPO = """
from stable_baselines3 import PPO
PPO("MlpPolicy", "CartPole-v1", n_steps=512, device="cpu", seed=0).learn({steps})
"""


def nanoseconds(statement: str) -> float:
    """CPU time of one execution, in a loop of its own."""
    return _least(_loop(statement)) - _least(_loop("pass"))


def _loop(statement: str) -> Callable[[], None]:
    def bare() -> None:
        pass

    names: dict[str, object] = {
        "operation": _recorder.operation,
        "kept": _recorder.operation("kept"),
        "decorated": _recorder.operation("decorated")(lambda: None),
        "bare": bare,
        "step": _recorder.step,
    }
    exec(f"def loop():\n    for _ in range({CALLS}):\n        {statement}", names)
    loop = names["loop"]
    assert callable(loop)
    return loop


def _least(loop: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.thread_time_ns()
        loop()
        best = min(best, (time.thread_time_ns() - begin) / CALLS)
    return best


def print_costs(folder: Path) -> None:
    """Each statement in the four states of the recorder."""
    table = {name: [nanoseconds(statement)] for name, statement in LOOPS.items()}
    _recorder.start(str(folder))
    for name, statement in LOOPS.items():
        table[name].append(nanoseconds(statement))
    _recorder.pause()
    for name, statement in LOOPS.items():
        table[name].append(nanoseconds(statement))
    _recorder.resume()
    _recorder.stop()
    for name, statement in LOOPS.items():
        table[name].append(nanoseconds(statement))
    print(
        f"{'ns of CPU time':26}{'never started':>15}{'recording':>12}{'paused':>10}{'stopped':>10}"
    )
    for name, row in table.items():
        print(f"{name:26}{row[0]:15.0f}{row[1]:12.0f}{row[2]:10.0f}{row[3]:10.0f}")


def print_disk(folder: Path, steps: int) -> None:
    """Bytes of a recorded training run, for an event and for a million environment steps."""
    script = folder / "ppo.py"
    script.write_text(PPO.format(steps=steps))
    target = folder / "ppo.cutaway"
    command = [sys.executable, "-m", "cutaway", "run", "-o", str(target), str(script)]
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    (process,) = read_run(target).processes
    records = _records(process)
    steady = _steady_part(records)
    packed = _recorder.pack_records(steady.tobytes())
    made = int(steady["value"][(steady["tag"] & 0xFF) == Kind.STEP].sum())
    print(
        f"\nPPO CartPole, {made} steps of steady state, {len(steady)} events, {len(steady) / made:.0f} a step"
    )
    print(f"bytes an event         {len(packed) / len(steady):.2f}")
    print(f"MB a million steps     {len(packed) / made:.0f}")
    _print_speed(steady.tobytes(), packed, len(steady))


def _records(process: ProcessTrace) -> np.ndarray:
    """Of the thread that makes the steps."""
    threads = [
        np.concatenate(list(process.records(thread))) for thread in process.threads
    ]
    return max(
        threads, key=lambda records: int(((records["tag"] & 0xFF) == Kind.STEP).sum())
    )


def _steady_part(records: np.ndarray) -> np.ndarray:
    iterations = np.flatnonzero((records["tag"] & 0xFF) == Kind.ITERATION)
    return records[iterations[1] : iterations[-1]]


def _print_speed(raw: bytes, packed: bytes, count: int) -> None:
    for name, work in (
        ("packed", lambda: _recorder.pack_records(raw)),
        ("unpacked", lambda: _recorder.unpack_records(packed, count)),
    ):
        best = float("inf")
        for _ in range(5):
            begin = time.thread_time()
            work()
            best = min(best, time.thread_time() - begin)
        print(
            f"M events {name:14}{count / best / 1e6:.0f} a second of CPU time, with the copy to Python"
        )


def main() -> None:
    """Both tables."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        print_costs(folder / "costs.cutaway")
        if importlib.util.find_spec("stable_baselines3"):
            print_disk(folder, 4096)


if __name__ == "__main__":
    main()
