"""Launches kernels for some seconds, a hundred in each iteration, and says how many there were."""

import sys
import time

import pyopencl as cl

import cutaway

SOURCE = """
__kernel void add(__global float *values) { values[get_global_id(0)] += 1.0f; }
__kernel void twice(__global float *values) { values[get_global_id(0)] *= 2.0f; }"""

context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
memory = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
program = cl.Program(context, SOURCE).build()
add, twice = cl.Kernel(program, "add"), cl.Kernel(program, "twice")
launched, until = 0, time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    cutaway.iteration()
    with cutaway.operation("inference"):
        for _ in range(100):
            add(queue, (64,), None, memory)
    with cutaway.operation("backpropagation"):
        twice(queue, (64,), None, memory)
        queue.finish()
    launched += 1
print(launched)
