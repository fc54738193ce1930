"""Launch in one operation, work on the CPU in a second one, wait for the device in a third one."""

import time

import numpy as np
import pyopencl as cl

import cutaway

SOURCE = """
__kernel void slow(__global float *values, int rounds) {
  int i = get_global_id(0);
  float x = values[i];
  for (int k = 0; k < rounds; k++) x = x * 1.0001f + 0.1f;
  values[i] = x;
}"""

context = cl.Context(cl.get_platforms()[0].get_devices())
queue = cl.CommandQueue(context)
values = np.ones(1024, np.float32)
memory = cl.Buffer(
    context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values
)
slow = cl.Kernel(cl.Program(context, SOURCE).build(), "slow")
for _ in range(5):
    cutaway.iteration()
    gate = cl.UserEvent(
        context
    )  # held back until its launch is over, however late this thread gets a core
    with cutaway.operation("inference"):
        kernel = slow(queue, (1024,), (64,), memory, np.int32(100000), wait_for=[gate])
    with cutaway.operation("simulation"):
        gate.set_status(cl.command_execution_status.COMPLETE)
        while kernel.command_execution_status > cl.command_execution_status.RUNNING:
            pass
        until = time.thread_time() + 0.002
        while time.thread_time() < until:
            pass
    with cutaway.operation("sync"):
        queue.finish()
with cutaway.operation("replay"):
    cl.enqueue_copy(queue, values, memory)
print(f"{values[0]:.1f}")
