"""An asynchronous device without a GPU: the trunk of the network runs in PyTorch, its heads as a kernel of OpenCL.

Every evaluation launches one short kernel, as a worker of Minigo does on a GPU. For showing what a profiler sees of that, not for speed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyopencl as cl
import torch

import cutaway

from .game import Floats
from .network import Evaluator, Network

SOURCE = """
__kernel void heads(__global const float *x, __global const float *weight, __global const float *bias, __global float *y, int inputs) {
    int row = get_global_id(0), column = get_global_id(1), columns = get_global_size(1);
    float sum = bias[column];
    for (int i = 0; i < inputs; i++) sum += x[row * inputs + i] * weight[column * inputs + i];
    y[row * columns + column] = sum;
}
"""


class OpenCLEvaluator(Evaluator):
    """Answers as `Evaluator` does."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self._context = cl.Context(cl.get_platforms()[0].get_devices()[:1])
        self._queue = cl.CommandQueue(self._context)
        self._kernel = cl.Kernel(cl.Program(self._context, SOURCE).build(), "heads")
        self._upload()

    def load(self, path: Path) -> None:
        super().load(path)
        self._upload()

    def _upload(self) -> None:
        heads = (self.network.policy, self.network.value)
        weight = torch.cat([head.weight for head in heads]).detach().numpy()
        bias = torch.cat([head.bias for head in heads]).detach().numpy()
        self._outputs, self._inputs = weight.shape
        self._weight, self._bias = self._buffer(weight), self._buffer(bias)

    def _buffer(self, values: Floats) -> cl.Buffer:
        flags = cl.mem_flags.READ_ONLY | cl.mem_flags.COPY_HOST_PTR
        return cl.Buffer(self._context, flags, hostbuf=np.ascontiguousarray(values))

    def __call__(self, planes: Floats) -> tuple[Floats, Floats]:
        with cutaway.operation("inference"), torch.no_grad():
            x = self.network.trunk(torch.from_numpy(planes)).numpy()
            y = np.empty((len(x), self._outputs), np.float32)
            out = cl.Buffer(self._context, cl.mem_flags.WRITE_ONLY, y.nbytes)
            self._kernel(
                self._queue,
                y.shape,
                None,
                self._buffer(x),
                self._weight,
                self._bias,
                out,
                np.int32(self._inputs),
            )
            cl.enqueue_copy(self._queue, y, out)
            logits = torch.from_numpy(y[:, :-1])
        return torch.softmax(logits, 1).numpy(), np.tanh(y[:, -1])
