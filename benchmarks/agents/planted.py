"""Where the cause of each planted program stands in its source, as text: line numbers follow edits of the programs.

A cause may be found at the line that is to be changed, or at the line it calls that does the work. Programs that are not here have
no such line: their cause is a setting of a framework, a number of threads, or there is none.
"""

from __future__ import annotations

from pathlib import Path

PROGRAMS = Path(__file__).parents[1] / "verdicts"
SIMULATED = ("declare.py", "zlib.compress(DATA, 6)")
COMPUTED = ("declare.py", "torch.tanh(a @ a)")
BACKWARD = "model(samples).pow(2).mean().backward()"
Place = tuple[str, str]  # file, part of the line

CAUSES: dict[str, tuple[Place, ...]] = {
    "no-iterations": (("edges.py", "simulate, 10 if applied else 20"), SIMULATED),
    "torch-simulator": (
        ("frameworks.py", "speed = speed + 0.01"),
        ("frameworks.py", "angle = angle + 0.01"),
    ),
    "python-glue": (("one_process.py", "sum(i * i for i in range(30_000"),),
    "native-bound": (("one_process.py", "a @ a"),),
    "simulation-bound": (("one_process.py", "simulate(8 if applied"), SIMULATED),
    "inference-bound": (("one_process.py", "policy(torch.ones(2 if applied"),),
    "backpropagation-bound": (
        ("one_process.py", ".pow(2).mean().backward()"),
        ("one_process.py", "optimizer.step()"),
    ),
    "checkpoint-bound": (("operations.py", 'within("checkpoint"'), SIMULATED),
    "evaluation-bound": (("operations.py", 'within("evaluation"'), SIMULATED),
    "search-bound": (("operations.py", "value(torch.ones("),),
    "reward-bound": (("operations.py", "model(torch.ones("),),
    "sync-bound": (
        ("operations.py", "pickle.dumps("),
        ("operations.py", "name: tensor.numpy().copy()"),
    ),
    "operation-bound": (("operations.py", 'within("tree search'), SIMULATED),
    "own-operation-around-backward": (
        ("operations.py", BACKWARD),
        ("operations.py", "optimizer.step()"),
    ),
    "replay-bound": (("operations.py", "memory[rows].sum()"),),
    "blocked-in-native-code": (("threads.py", "LIBC.usleep(12_000)"),),
    "gil-fight": (("threads.py", "sum(i % 7 for i in range(200_000))"),),
    "learner-beside-batcher": (
        ("threads.py", 'within("backpropagation", compute, 30)'),
        COMPUTED,
    ),
    "waiting": (("workers.py", "time.sleep(seconds)"), ("workers.py", "ours.recv()")),
    "simulation-bound-workers": (SIMULATED, ("declare.py", 'within("simulation"')),
    "straggler": (SIMULATED, ("declare.py", 'within("simulation"')),
    "equal-workers": (SIMULATED, ("declare.py", 'within("simulation"')),
    "slow-verifier": (
        ("language.py", 'within("reward", simulate, 20 if applied else 40)'),
        SIMULATED,
    ),
    "slow-sync": (("language.py", 'within("sync: update", simulate, 20)'), SIMULATED),
    "long-tail": (("language.py", 'within("decode", compute, rounds)'), COMPUTED),
    "trainer-starved": (("language.py", 'within("decode", compute, rounds)'), COMPUTED),
    "inference-bound-server": (("workers.py", "policy(torch.ones(batch, 64))"),),
}


def lines(program: str) -> set[tuple[str, int]]:
    """The planted lines of a program: file name and number."""
    found = set()
    for name, part in CAUSES[program]:
        path = next(PROGRAMS.rglob(name))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if part in line:
                found.add((name, number))
    if not found:
        raise LookupError(f"{program}: {CAUSES[program]} is in no source line")
    return found
