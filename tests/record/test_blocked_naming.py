"""The rule that names plain loops leaves out what a thread sleeps, and threads that run side by side are not added up."""

from __future__ import annotations

from pathlib import Path

from recorded import record, script

from cutaway.reports.digests import digest_at

LEARNER = """
import cutaway, ctypes, threading, time, torch
libc = ctypes.CDLL(None)
model = torch.nn.Linear(256, 256)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = torch.zeros(64, 256)

def update(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        loss = model(data).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def _operations(folder: Path, program: str) -> dict[str, float]:
    record(folder, script(folder, LEARNER + program))
    digest = digest_at(folder / "run.cutaway")
    cells = [(c.operation, c.ns) for c in digest.spent.cells]
    total = sum(ns for _, ns in cells)
    return {
        name: sum(ns for own, ns in cells if own == name) / total for name, _ in cells
    }


def test_a_learner_that_sleeps_between_updates_is_not_all_update(
    tmp_path: Path,
) -> None:
    shares = _operations(
        tmp_path,
        """
for _ in range(15):
    update(0.02)
    libc.usleep(200_000)
""",
    )
    assert shares["backpropagation"] < 0.25
    assert shares[""] > 0.7


def test_an_idle_thread_is_not_added_to_the_learner(tmp_path: Path) -> None:
    """The learner's thread updates all the time; a batcher sleeps, but has an operation of its own."""
    shares = _operations(
        tmp_path,
        """
over = threading.Event()

def batch():
    while not over.is_set():
        with cutaway.operation("batching"):
            libc.usleep(1000)
        libc.usleep(100_000)

batcher = threading.Thread(target=batch)
batcher.start()
learner = threading.Thread(target=update, args=(3.0,))
learner.start()
learner.join()
over.set()
batcher.join()
""",
    )
    assert shares["backpropagation"] > 0.85
    assert "batching" not in shares


def test_your_name_wins_over_the_update_it_holds(tmp_path: Path) -> None:
    shares = _operations(
        tmp_path,
        """
for _ in range(30):
    with cutaway.operation("mine"):
        loss = model(data).square().mean()
        loss.backward()
        torch.autograd.grad(model(data).square().mean(), list(model.parameters()))
""",
    )
    assert "backpropagation" not in shares and shares["mine"] > 0.5


def test_a_worker_that_waits_for_its_next_task_does_not_act(tmp_path: Path) -> None:
    """Waits that Cutaway knows have no name either, whatever they lead to: here a queue, between a step and the next action."""
    shares = _operations(
        tmp_path,
        """
import queue

class World:
    def reset(self): return torch.zeros(1, 256)
    def step(self, action):
        time.sleep(0.002)
        return torch.zeros(1, 256), 1.0, False, {}

tasks = queue.Queue()

def feed():
    for _ in range(40):
        time.sleep(0.04)
        tasks.put(1)

feeder = threading.Thread(target=feed)
feeder.start()
world = World()
observation = world.reset()
for _ in range(40):
    tasks.get()
    with torch.no_grad():
        action = model(observation)
    observation, *_ = world.step(action)
feeder.join()
""",
    )
    # On a busy machine a thread may want a core for longer than it works. If waiting acted, inference would have all but the steps.
    assert shares.get("inference", 0) < shares[""] / 2
    assert shares["simulation"] > 0.02
    assert shares[""] > 0.5
