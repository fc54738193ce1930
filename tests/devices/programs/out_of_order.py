"""Kernels on an out-of-order queue, held back by a user event, so that the last enqueued is the first to run."""

import numpy as np
import pyopencl as cl

import cutaway

SOURCE = """
__kernel void held(__global float *values) { values[get_global_id(0)] += 1.0f; }
__kernel void free_to_run(__global float *values) { values[get_global_id(0)] += 1.0f; }"""

context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(
    context, properties=cl.command_queue_properties.OUT_OF_ORDER_EXEC_MODE_ENABLE
)
first = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
second = cl.Buffer(context, cl.mem_flags.READ_WRITE, 4096)
program = cl.Program(context, SOURCE).build()
gate = cl.UserEvent(context)
held, free_to_run = cl.Kernel(program, "held"), cl.Kernel(program, "free_to_run")
with cutaway.operation("inference"):
    waiting = held(queue, (1024,), None, first, wait_for=[gate])
with cutaway.operation("simulation"):
    cl.enqueue_fill_buffer(queue, second, np.float32(2), 0, 4096).wait()
    free_to_run(queue, (1024,), None, second).wait()
gate.set_status(cl.command_execution_status.COMPLETE)
with cutaway.operation("sync"):
    waiting.wait()
