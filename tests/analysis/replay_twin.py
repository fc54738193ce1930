"""native/replay/replay.h in readable Python, for machines with a core for every thread: the specification, for tests."""

from __future__ import annotations

import heapq
from collections import deque

RUN, RUN_GIL, DELAY, GIVE, TAKE, PEEK, PASS = range(7)
ASK, COLLECT, EACH, ANSWER = range(7, 11)
Item = tuple[int, int, float]


class Twin:
    def __init__(
        self, threads: list[list[Item]], process: list[int], channels: list[float]
    ) -> None:
        self.threads, self.process, self.held = threads, process, list(channels)
        self.at = [0] * len(threads)
        self.now, self.passes = 0.0, list[float]()
        self.due: list[tuple[float, int, int]] = []
        self.order = 0
        self.waiting: dict[int, deque[int]] = {c: deque() for c in range(len(channels))}
        self.asking: dict[int, deque[int]] = {c: deque() for c in range(len(channels))}
        self.serving: dict[int, deque[int]] = {c: deque() for c in range(len(channels))}
        self.batch: list[list[int]] = [[] for _ in threads]
        self.answered, self.asked = 0, list[int]()
        self.holder: dict[int, int] = {}
        self.fresh: set[int] = set()
        self.wants: dict[int, deque[int]] = {p: deque() for p in process}
        self.ready: deque[int] = deque(range(len(threads)))

    def run(self) -> list[float]:
        while True:
            while self.ready:
                self.go_on(self.ready.popleft())
            if self.at[0] == len(self.threads[0]) or not self.due:
                return self.passes
            self.now, _, thread = heapq.heappop(self.due)
            self.at[thread] += 1
            self.ready.append(thread)

    def later(self, thread: int, seconds: float) -> None:
        self.order += 1
        heapq.heappush(self.due, (self.now + seconds, self.order, thread))

    def go_on(self, thread: int) -> None:
        while self.at[thread] < len(self.threads[thread]):
            kind, what, amount = self.threads[thread][self.at[thread]]
            if kind == RUN_GIL and not self.lock(thread):
                return
            if kind in (RUN, DELAY, EACH):
                self.unlock(thread)
            if kind == EACH and self.batch[thread]:
                self.later(thread, amount * len(self.batch[thread]))
                return
            if kind in (RUN, RUN_GIL, DELAY):
                self.later(thread, amount)
                return
            if kind == GIVE:
                self.held[what] += amount
                self.serve(what)
            if kind in (TAKE, PEEK):
                if self.waiting[what] or self.held[what] < amount:
                    self.unlock(thread)
                    self.waiting[what].append(thread)
                    return
                self.held[what] -= amount if kind == TAKE else 0
            if kind == PASS and thread == 0:
                self.passes.append(self.now)
                self.asked.append(self.answered)
            if kind == ASK:
                self.ask(thread, what)
                return
            if kind == COLLECT and not self.collect(thread, what, int(amount)):
                return
            if kind == ANSWER:
                self.answer(thread)
            self.at[thread] += 1
        self.unlock(thread)

    def serve(self, channel: int) -> None:
        queue = self.waiting[channel]
        while queue:
            kind, _, amount = self.threads[queue[0]][self.at[queue[0]]]
            if self.held[channel] < amount:
                return
            self.held[channel] -= amount if kind == TAKE else 0
            self.at[queue[0]] += 1
            self.ready.append(queue.popleft())

    def ask(self, thread: int, desk: int) -> None:
        self.unlock(thread)
        self.asking[desk].append(thread)
        if self.serving[desk]:
            server = self.serving[desk][0]
            _, _, wanted = self.threads[server][self.at[server]]
            if len(self.asking[desk]) >= max(1, wanted):
                self.ready.append(self.serving[desk].popleft())

    def collect(self, thread: int, desk: int, wanted: int) -> bool:
        asking = self.asking[desk]
        if len(asking) < max(1, wanted):
            self.unlock(thread)
            self.serving[desk].append(thread)
            return False
        self.batch[thread] = [asking.popleft() for _ in range(wanted or len(asking))]
        return True

    def answer(self, thread: int) -> None:
        for asker in self.batch[thread]:
            self.at[asker] += 1
            self.ready.append(asker)
        self.answered += len(self.batch[thread])
        self.batch[thread] = []

    def lock(self, thread: int) -> bool:
        process = self.process[thread]
        holder = self.holder.get(process)
        if holder == thread and thread not in self.fresh and self.wants[process]:
            self.unlock(thread)
        elif holder in (None, thread):
            self.holder[process] = thread
            self.fresh.discard(thread)
            return True
        self.wants[process].append(thread)
        return False

    def unlock(self, thread: int) -> None:
        process = self.process[thread]
        if self.holder.get(process) != thread:
            return
        del self.holder[process]
        if self.wants[process]:
            self.holder[process] = self.wants[process].popleft()
            self.fresh.add(self.holder[process])
            self.ready.append(self.holder[process])
