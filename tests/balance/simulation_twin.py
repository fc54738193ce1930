"""A trainer in readable Python: the specification of what cutaway_balance/program.py has native/replay/replay.h work off, for tests.

Time moves from event to event. Each CPU thread has a queue of its own. A waking job returns to the thread it last ran
on; if that one is busy and the machine is lightly loaded, it moves to an idle one. Idle threads take over waiting jobs
at the tick. A job that wakes a sleeping thread loses time. Server and learner preempt an actor at once. All running
jobs share the machine's capacity equally. The device serves in order, training in slices.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, fields
from typing import Any

from cutaway.machines.machine import Machine
from cutaway_balance.demands import Demands, Line, Time


@dataclass
class System:
    """A workload on a machine, with all its times as they are there."""

    actors: int
    envs_per_actor: int
    threads: int
    cores: int
    smt_yield: float
    turbo: float
    wake: float
    foreign: float
    env_step: Time
    actor_overhead: Time
    host: Line
    reply: Line
    after: Line
    device: Line
    batch: int
    timeout: float
    latency: float
    train_host: Time
    train_device: Time
    steps_per_train: float
    slice: float
    unroll: int
    queue: int
    device_on_cpu: bool

    @staticmethod
    def of(demands: Demands, machine: Machine, actors: int) -> System:
        d, machine = demands.on(machine)
        known = {**vars(machine), **vars(d), "actors": actors}
        known["batch"] = d.batch_for(actors)
        known["timeout"] = -1.0 if d.timeout is None else d.timeout
        return System(**{f.name: known[f.name] for f in fields(System)})


@dataclass
class Job:
    left: float
    role: str
    who: int = 0


class Twin:
    def __init__(self, s: System, seed: int) -> None:
        self.s, self.random = s, random.Random(seed)
        self.now, self.steps, self.unrolls, self.pending = 0.0, 0, 0.0, 0.0
        self.threads: list[Job | None] = [None] * s.threads
        self.waiting: list[list[Job]] = [[] for _ in range(s.threads)]
        self.last: dict[object, int] = {}  # the thread a process last ran on
        self.load = 0.0
        self.idle_since = [0.0] * s.threads
        self.wake = s.wake * max(0.0, 1 - s.foreign / s.threads)
        self.device: list[Job] = []
        self.device_ends = 0.0
        self.delayed: list[tuple[float, Job]] = []
        self.requests: list[int] = []
        self.first_request = 0.0
        self.batch: list[int] | None = None
        self.training = False
        self.blocked = False

    def draw(self, service: Any) -> float:
        if service.cv == 0 or service.mean == 0:
            return float(service.mean)
        return self.random.gammavariate(1 / service.cv**2, service.mean * service.cv**2)

    @property
    def running(self) -> list[Job]:
        return [job for job in self.threads if job is not None]

    def process(self, job: Job) -> object:
        if job.role == "actor":
            return job.who
        return "learner" if job.role.startswith("train") else "server"

    def capacity(self, k: int) -> float:
        s = self.s
        clock = (
            1 - (1 - s.turbo) * (min(k, s.cores) - 1) / (s.cores - 1)
            if s.cores > 1
            else 1.0
        )
        if k <= s.cores:
            return float(clock * k)
        return float(
            clock
            * s.cores
            * (1 + (s.smt_yield - 1) * (k - s.cores) / (s.threads - s.cores))
        )

    def speed(self) -> float:
        k = len(self.running)
        if k == 0:
            return 1.0
        left = max(
            0.02 * self.s.threads, self.capacity(self.s.threads) - self.s.foreign
        )
        return min(self.capacity(k), left) / k

    def actor_work(self) -> float:
        return self.draw(self.s.actor_overhead) + sum(
            self.draw(self.s.env_step) for _ in range(self.s.envs_per_actor)
        )

    def cpu(self, job: Job) -> None:
        process, count = self.process(job), len(self.threads)
        first = {"server": self.s.actors, "learner": self.s.actors + 1}.get(
            str(process), job.who
        )
        thread = self.last.get(process, first % count)
        idle = [t for t in range(count) if self.threads[t] is None]
        if thread not in idle and idle and count * (1 - 1.17**2 * self.load**2) >= 1:
            thread = idle[0]
        self.last[process] = thread
        current = self.threads[thread]
        if current is None:
            if self.now - self.idle_since[thread] > 0.2e-3:
                job.left += self.wake
            self.threads[thread] = job
        elif job.role == "actor":
            self.waiting[thread].append(job)
        elif current.role == "actor":
            self.waiting[thread].insert(0, current)
            self.threads[thread] = job
        else:
            self.waiting[thread].insert(0, job)

    def next_tick(self) -> float:
        return 4e-3 * math.ceil(self.now / 4e-3 + 1e-6)

    def balance(self) -> None:
        for thread, job in enumerate(self.threads):
            queue = next(
                (q for q in self.waiting[thread:] + self.waiting[:thread] if q), None
            )
            if job is None and queue:
                taken = queue.pop(0)
                self.threads[thread] = taken
                self.last[self.process(taken)] = thread

    def use_device(self, job: Job) -> None:
        if self.s.device_on_cpu:
            self.cpu(job)
            return
        self.device.append(job)
        if len(self.device) == 1:
            self.device_ends = self.now + self.device_slice()

    def start_batch(self) -> None:
        s = self.s
        if self.batch is not None or self.blocked or not self.requests:
            return
        late = s.timeout >= 0 and self.now >= self.first_request + s.timeout - 1e-12
        if len(self.requests) * s.envs_per_actor < s.batch and not late:
            return
        take = min(len(self.requests), max(1, s.batch // s.envs_per_actor))
        self.batch, self.requests = self.requests[:take], self.requests[take:]
        self.first_request = self.now
        n = take * s.envs_per_actor
        self.serve(Job(s.host(n), "host", n))

    def serve(self, job: Job) -> None:
        """Work of the server; what costs nothing is over at once."""
        if job.left > 0:
            self.cpu(job)
        else:
            self.done(job)

    def learn(self) -> None:
        wants = min(self.s.steps_per_train / self.s.unroll, self.s.queue)
        if self.s.steps_per_train == 0 or self.training or self.unrolls + 1e-9 < wants:
            return
        self.unrolls -= wants
        self.training = True
        self.cpu(Job(self.draw(self.s.train_host), "train host"))
        self.fill_queue()

    def fill_queue(self) -> None:
        moved = min(self.s.queue - self.unrolls, self.pending)
        self.unrolls, self.pending = self.unrolls + moved, self.pending - moved
        self.blocked = self.pending > 1e-9

    def done(self, job: Job) -> None:
        s = self.s
        if job.role == "actor":
            if not self.requests:
                self.first_request = self.now
            self.requests.append(job.who)
        elif job.role == "host":
            self.use_device(Job(s.device(job.who), "inference", job.who))
        elif job.role == "inference":
            self.serve(Job(s.reply(job.who), "answer", job.who))
        elif (
            job.role == "answer"
        ):  # goes on with what comes after before anyone else gets its thread
            after = s.after(job.who)
            if after > 0:
                self.cpu(Job(after, "after", job.who))
            self.reply()
            if after <= 0:
                self.batch_done()
        elif job.role == "after":
            self.batch_done()
        elif job.role == "train host":
            self.use_device(Job(self.draw(s.train_device), "training"))
        else:
            self.training = False
        self.learn()
        self.start_batch()

    def reply(self) -> None:
        batch = self.batch or []
        for who in batch:
            job = Job(self.actor_work(), "actor", who)
            if self.s.latency > 0:
                self.delayed.append((self.now + self.s.latency, job))
            else:
                self.cpu(job)
        self.steps += len(batch) * self.s.envs_per_actor

    def batch_done(self) -> None:
        batch, self.batch = self.batch or [], None
        if self.s.steps_per_train:
            self.pending += len(batch) * self.s.envs_per_actor / self.s.unroll
            self.fill_queue()

    def device_slice(self) -> float:
        job = self.device[0]
        return min(job.left, self.s.slice) if job.role == "training" else job.left

    def advance(self) -> bool:
        """To the next event; false when there is none."""
        times = [self.now + j.left / self.speed() for j in self.running] + [
            t for t, _ in self.delayed
        ]
        if self.device:
            times.append(self.device_ends)
        if (
            self.s.timeout >= 0
            and self.batch is None
            and not self.blocked
            and self.requests
        ):
            times.append(max(self.now, self.first_request + self.s.timeout))
        if not times:
            return False
        tick = self.next_tick()
        if any(self.waiting) and len(self.running) < len(self.threads):
            times.append(tick)
        to = min(times)
        speed, dt, self.now = self.speed(), to - self.now, to
        kept = 2 ** (-dt / 32e-3)
        self.load = self.load * kept + (1 - kept) * len(self.running) / len(
            self.threads
        )
        for job in self.running:
            job.left -= dt * speed
        if to == tick:
            self.balance()
        self.finish_cpu()
        self.finish_device()
        for item in [d for d in self.delayed if d[0] <= self.now + 1e-12]:
            self.delayed.remove(item)
            self.cpu(item[1])
        self.start_batch()
        return True

    def finish_cpu(self) -> None:
        for thread, job in enumerate(self.threads):
            if job is None or job.left > 1e-12:
                continue
            self.threads[thread], self.idle_since[thread] = None, self.now
            self.done(job)  # what it goes on with finds its thread free
            if self.threads[thread] is None and self.waiting[thread]:
                self.threads[thread] = self.waiting[thread].pop(0)

    def finish_device(self) -> None:
        if not self.device or self.device_ends > self.now + 1e-12:
            return
        job = self.device.pop(0)
        job.left -= min(job.left, self.s.slice) if job.role == "training" else job.left
        if job.left > 1e-12:
            self.device.append(job)
        if self.device:
            self.device_ends = self.now + self.device_slice()
        if job.left <= 1e-12:
            self.done(job)


def simulate(s: System, seed: int, warmup_steps: int, steps: int) -> float:
    """Environment steps in a second."""
    twin = Twin(s, seed)
    for who in range(s.actors):
        twin.cpu(Job(twin.random.uniform(0.05, 1) * twin.actor_work(), "actor", who))
    start, counted = None, 0
    while twin.steps < warmup_steps + steps and twin.advance():
        if start is None and twin.steps >= warmup_steps:
            start, counted = twin.now, twin.steps
    return (
        (twin.steps - counted) / (twin.now - start)
        if start is not None and twin.now > start
        else 0.0
    )
