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
memory = cl.Buffer(context, cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR, hostbuf=values)
slow = cl.Kernel(cl.Program(context, SOURCE).build(), "slow")
for _ in range(5):
    cutaway.iteration()
    with cutaway.operation("inference"):
        slow(queue, (1024,), (64,), memory, np.int32(40000))
    with cutaway.operation("simulation"):
        until = time.perf_counter() + 0.004
        while time.perf_counter() < until:
            pass
    with cutaway.operation("sync"):
        queue.finish()
with cutaway.operation("replay"):
    cl.enqueue_copy(queue, values, memory)
print(f"{values[0]:.1f}")
