"""What a request for actions costs, and how near the trainer comes to what the machine allows.

    python benchmarks/transport.py            CPU time of a request, both sides, beside a pickling pipe
    python benchmarks/transport.py --knee     throughput against operational bounds, emulated accelerator

CPU time is summed over the processes, so that a busy machine disturbs it little; the second part needs a
quiet machine and says how much of it others used.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path

import numpy as np

from cutaway_workloads.r2d2 import envs
from cutaway_workloads.r2d2.config import Config, EmulatedDevice
from cutaway_workloads.r2d2.engine import Engine
from cutaway_workloads.r2d2.envs import EnvSpec
from cutaway_workloads.r2d2.shared import context
from cutaway_workloads.r2d2.transport import Client, Port, Server, Slots

SPEC = EnvSpec((84, 84), "uint8", actions=18)
WARM_UP = 200
FRAME = np.zeros((84, 84), np.uint8)


def cpu_ns(pid: int) -> int:
    """CPU time of all threads of a process."""
    return sum(
        int(p.read_text().split()[0])
        for p in Path(f"/proc/{pid}/task").glob("*/schedstat")
    )


def slot_actor(port: Port) -> None:
    client = Client(port)
    while True:
        client.obs[0] = FRAME
        client.reward[0], client.done[0] = 0.0, 0
        client.ask()
        if not client.receive():
            return
        client.action.tolist()


def measure_slots(actors: int, rounds: int) -> float:
    """µs of CPU for one request, actor and server together."""
    slots = Slots(context(), SPEC, actors, 1)
    processes = [
        context().Process(target=slot_actor, args=(Port(slots, i, 1),))
        for i in range(actors)
    ]
    for process in processes:
        process.start()
    server, batch = Server(slots), max(1, actors // 2)
    actions = np.zeros(batch, np.int64)
    pids, served, start = [os.getpid(), *[p.pid or 0 for p in processes]], 0, 0
    for number in range(WARM_UP + rounds):
        if number == WARM_UP:
            start = sum(map(cpu_ns, pids))
        server.answer(server.read(server.wait_full(batch)), actions)
        served += batch * (number >= WARM_UP)
    spent = sum(map(cpu_ns, pids)) - start
    slots.close()
    for process in processes:
        process.join()
    return spent / served / 1000


def pipe_actor(connection) -> None:  # type: ignore[no-untyped-def]
    while True:
        connection.send((FRAME, 0.0, False))
        if connection.recv() is None:
            return


def measure_pipes(actors: int, rounds: int) -> float:
    """The same with one multiprocessing.Pipe an actor, as vector environments do it."""
    from multiprocessing.connection import wait

    pairs = [context().Pipe() for _ in range(actors)]
    processes = [
        context().Process(target=pipe_actor, args=(theirs,)) for _, theirs in pairs
    ]
    for process in processes:
        process.start()
    ours, pids, served, start = (
        [mine for mine, _ in pairs],
        [os.getpid(), *[p.pid or 0 for p in processes]],
        0,
        0,
    )
    for number in range(WARM_UP + rounds):
        if number == WARM_UP:
            start = sum(map(cpu_ns, pids))
        for connection in wait(ours):
            connection.recv()  # type: ignore[union-attr]
            connection.send(3)  # type: ignore[union-attr]
            served += number >= WARM_UP
    spent = sum(map(cpu_ns, pids)) - start
    waiting = set(ours)
    while waiting:
        for connection in wait(list(waiting)):
            connection.recv()  # type: ignore[union-attr]
            connection.send(None)  # type: ignore[union-attr]
            waiting.discard(connection)  # type: ignore[arg-type]
    for process in processes:
        process.join()
    return spent / served / 1000


def machine_busy_ns() -> int:
    """CPU time the whole machine has spent, whoever spent it."""
    fields = [
        int(x) for x in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
    ]
    return (sum(fields) - fields[3] - fields[4]) * 10_000_000


def measure_knee(
    actors: int, burn_us: int, device: EmulatedDevice, seconds: float
) -> str:
    """Throughput of actors and inference, beside the bounds of CPU, accelerator and round trip."""
    config = Config(env=f"synthetic:{burn_us}", actors=actors, emulate=device)
    engine, stop = (
        Engine(config, envs.make(config.env, 0).spec, None),
        threading.Event(),
    )
    engine.start()
    drain = threading.Thread(
        target=lambda: [engine.take(1, stop) for _ in iter(stop.is_set, True)]
    )
    drain.start()
    time.sleep(1.0)
    pids = [
        os.getpid(),
        engine._inference.pid or 0,
        *[p.pid or 0 for p in engine.actors],
    ]
    before = (
        time.monotonic(),
        engine.counters.steps,
        sum(map(cpu_ns, pids)),
        machine_busy_ns(),
    )
    time.sleep(seconds)
    after = (
        time.monotonic(),
        engine.counters.steps,
        sum(map(cpu_ns, pids)),
        machine_busy_ns(),
    )
    stop.set()
    drain.join()
    engine.stop()
    wall, steps, own, busy = (b - a for a, b in zip(before, after, strict=True))
    foreign = max(0.0, (busy - own) / 1e9 / wall)
    cores = len(os.sched_getaffinity(0))
    batch = config.inference_envs
    served = (device.a_us + device.b_us * batch) * 1e-6
    demand = own / 1e9 / steps
    bounds = {
        "cpu": (cores - foreign) / demand,
        "accelerator": batch / served,
        "round trip": actors / (burn_us * 1e-6 + served),
    }
    tight = min(bounds, key=lambda name: bounds[name])
    rate = steps / wall
    return (
        f"{actors:6d} {rate:9.0f} {bounds[tight]:9.0f}  {tight:12s} {100 * rate / bounds[tight]:5.1f} %"
        f" {demand * 1e6 - burn_us:9.1f} {foreign:8.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--actors", default="1,2,4,8,16")
    parser.add_argument("--rounds", type=int, default=2000)
    parser.add_argument(
        "--repeats", type=int, default=5, help="the least disturbed one counts"
    )
    parser.add_argument("--knee", action="store_true")
    parser.add_argument("--burn-us", type=int, default=400)
    parser.add_argument(
        "--device", default="400,90", help="a,b of the emulated accelerator in µs"
    )
    parser.add_argument("--seconds", type=float, default=4.0)
    args = parser.parse_args()
    counts = [int(x) for x in args.actors.split(",")]
    if args.knee:
        device = EmulatedDevice(*[float(x) for x in args.device.split(",")])
        print("actors   steps/s     bound  which            of it  µs beyond  foreign")
        print(
            "                                                         the burn    cores"
        )
        for count in counts:
            print(measure_knee(count, args.burn_us, device, args.seconds), flush=True)
        return
    print(
        "actors   slots µs   pipe µs   (CPU of one request with an 84×84 observation, both sides)"
    )
    for count in counts:
        slots = min(measure_slots(count, args.rounds) for _ in range(args.repeats))
        pipes = min(measure_pipes(count, args.rounds) for _ in range(args.repeats))
        print(f"{count:6d} {slots:10.1f} {pipes:9.1f}", flush=True)


if __name__ == "__main__":
    main()
