"""Two children with a device each; the second one is killed after it was told that its kernels have finished."""

import multiprocessing
import os
import signal
import sys
import time

import numpy as np


def child(number: int) -> None:
    import pyopencl as cl

    import cutaway

    context = cl.Context(cl.get_platforms()[0].get_devices())
    queue = cl.CommandQueue(context)
    source = f"__kernel void work{number}(__global float *v) {{ v[get_global_id(0)] += 1.0f; }}"
    work = cl.Kernel(cl.Program(context, source).build(), f"work{number}")
    memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
    cl.enqueue_copy(queue, memory, np.zeros(1024, np.float32))
    for _ in range(10):
        with cutaway.operation(f"child {number}"):
            work(queue, (1024,), None, memory).wait()
    if number == 2:
        deadline = time.monotonic() + 60
        # The driver tells of an end when it gets a core for that.
        while told("work2") < 10 and time.monotonic() < deadline:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)


def told(kernel: str) -> int:
    """How many of these this process has on disk."""
    from cutaway.trace.reader import read_run

    (process,) = [
        p
        for p in read_run(os.environ["CUTAWAY"].partition("?")[0]).processes
        if p.pid == os.getpid()
    ]
    names = [id for id, text in process.log.names.items() if text == kernel]
    return int(np.isin(process.device()["name"], names).sum())


if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    children = [context.Process(target=child, args=(number,)) for number in (1, 2)]
    for process in children:
        process.start()
    for process in children:
        process.join()
    sys.exit(0 if [process.exitcode for process in children] == [0, -9] else 1)
