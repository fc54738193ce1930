"""Runs that are written rather than recorded: every time in them is known to the nanosecond."""

from __future__ import annotations

from pathlib import Path

from cutaway.trace.writer import ProcessWriter, RunWriter, ThreadWriter
from cutaway.vocabulary import Kind

MS = 1_000_000
BYTES = 1000


class Script:
    """What one thread does, in order; `now` is its clock."""

    def __init__(self, process: ProcessWriter, tid: int) -> None:
        self.process = process
        self.thread: ThreadWriter = process.thread(tid=tid, name="MainThread")
        self.now = MS
        self.channels: dict[str, int] = {}
        self.sleep = process.call(layer="wait", fn="time.sleep")
        self.read = process.call(layer="wait", fn="os.read")

    def write(self, kind: int, value: int, id: int) -> None:
        self.thread.write([self.now], [value], kind, id)

    def slept(self, operation: str, ns: int) -> None:
        """An operation that only sleeps."""
        name = self.process.name(operation)
        self.write(Kind.OP_ENTER, 0, name)
        self.write(Kind.CALL, ns, self.sleep)
        self.now += ns
        self.write(Kind.OP_EXIT, 0, name)

    def worked(self, operation: str, ns: int) -> None:
        """An operation that computes."""
        name = self.process.name(operation)
        self.write(Kind.OP_ENTER, 0, name)
        self.now += ns
        self.write(Kind.OP_EXIT, 0, name)

    def gives(self, channel: str) -> None:
        self.write(Kind.FEED, BYTES, self._channel(channel))

    def takes(self, channel: str, at: int) -> None:
        """Waits until an instant, and takes what somebody gave then."""
        if at > self.now:
            self.write(Kind.CALL, at - self.now, self.read)
            self.now = at
        self.write(Kind.TAKE, BYTES, self._channel(channel))

    def iteration(self, number: int) -> None:
        self.write(Kind.ITERATION, number, 0)

    def _channel(self, name: str) -> int:
        if name not in self.channels:
            self.channels[name] = len(self.channels) + 1
            self.process.log("channel", {"id": self.channels[name], "on": name})
        return self.channels[name]


def lockstep(
    folder: Path, sleeps: tuple[int, ...] = (10, 10, 40), each: int = 1
) -> Path:
    """Workers that sleep for so many ms when they are asked, and a main process that sleeps for 20 ms then. `each`: environments
    that a worker steps, one after the other."""
    iterations = 40
    with RunWriter(folder, command="train.py", cpus=2) as run:
        learner = run.process(pid=1, name="train")
        main = Script(learner, 1)
        made = [
            run.process(pid=2 + number, ppid=1, name=f"worker-{number}")
            for number in range(len(sleeps))
        ]
        workers = [Script(process, 2 + at) for at, process in enumerate(made)]
        for number in range(iterations):
            _round(main, workers, sleeps)
            main.write(Kind.STEP, each * len(sleeps), 0)
            main.slept("backpropagation", 20 * MS)
            main.iteration(number)
        for process in (learner, *made):
            process.exit(t=main.now, code=0)
    return folder


def _round(main: Script, workers: list[Script], sleeps: tuple[int, ...]) -> None:
    asked = main.now
    for number, (worker, ns) in enumerate(zip(workers, sleeps, strict=True)):
        main.gives(f"asks {number}")
        worker.takes(f"asks {number}", asked)
        worker.slept("simulation", ns * MS)
        worker.gives(f"answers {number}")
    for number, worker in enumerate(workers):
        main.takes(f"answers {number}", worker.now)


def served(folder: Path, work: int = MS, actors: int = 2) -> Path:
    """Actors that sleep for 10 ms, a server that waits for all of them and works before it answers, and a learner that updates every
    20 ms and does not wait for anybody."""
    with RunWriter(folder, command="train.py", cpus=8) as run:
        learner = run.process(pid=1, name="train")
        server = run.process(pid=2, ppid=1, name="server")
        main, serve = Script(learner, 1), Script(server, 2)
        made = [
            run.process(pid=3 + number, ppid=1, name=f"actor-{number}")
            for number in range(actors)
        ]
        scripts = [Script(process, 3 + at) for at, process in enumerate(made)]
        for _ in range(60):
            _batch(serve, scripts, work)
        while main.now < serve.now:
            main.slept("backpropagation", 20 * MS)
            main.iteration(0)
        for process in (learner, server, *made):
            process.exit(t=serve.now, code=0)
    return folder


def _batch(serve: Script, actors: list[Script], work: int) -> None:
    for number, actor in enumerate(actors):
        actor.slept("simulation", 10 * MS)
        actor.gives(f"asks {number}")
    for number, actor in enumerate(actors):
        serve.takes(f"asks {number}", actor.now)
    serve.worked("inference", work)
    for number, actor in enumerate(actors):
        serve.gives(f"replies {number}")
        actor.takes(f"replies {number}", serve.now)


def batches(folder: Path, size: int, iterations: int = 30) -> Path:
    """Simulation for 10 ms, then an update of 0.1 ms for each sample of the batch, neither of them asleep."""
    with RunWriter(folder, command="train.py", cpus=2) as run:
        process = run.process(pid=1, name="train")
        main = Script(process, 1)
        for number in range(iterations):
            main.worked("simulation", 10 * MS)
            main.worked("backpropagation", size * MS // 10)
            main.iteration(number)
        process.exit(t=main.now, code=0)
    return folder


def crowd(folder: Path, workers: int) -> Path:
    """Workers that compute for 10 ms when they are asked, all at once, each on a core of its own."""
    with RunWriter(folder, command="train.py", cpus=workers) as run:
        main = Script(run.process(pid=1, name="train"), 1)
        made = [
            run.process(pid=2 + number, ppid=1, name=f"worker-{number}")
            for number in range(workers)
        ]
        scripts = [Script(process, 2 + at) for at, process in enumerate(made)]
        for number in range(40):
            asked = main.now
            for at, worker in enumerate(scripts):
                main.gives(f"asks {at}")
                worker.takes(f"asks {at}", asked)
                worker.worked("simulation", 10 * MS)
                worker.gives(f"answers {at}")
            for at, worker in enumerate(scripts):
                main.takes(f"answers {at}", worker.now)
            main.write(Kind.STEP, workers, 0)
            main.iteration(number)
        for process in (main.process, *made):
            process.exit(t=main.now, code=0)
    return folder
