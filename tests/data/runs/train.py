"""The program behind tests/data/runs: operations, phases, iterations, steps, waits, two processes."""

import os
import time

import numpy as np

import cutaway

weights = np.eye(8)


def update(batch):
    with cutaway.operation("backpropagation"):
        for _ in range(5):
            np.linalg.inv(weights + batch)


cutaway.phase("train")
for number in range(6):
    cutaway.iteration()
    for _ in range(4):
        with cutaway.operation("inference"):
            np.linalg.solve(weights, weights)
        with cutaway.operation("simulation"):
            time.sleep(0.0005)
            cutaway.step(2)
    update(0.01 * number)
child = os.fork()
if child == 0:
    with cutaway.operation("evaluation"):
        np.linalg.inv(weights)
    os._exit(0)
os.waitpid(child, 0)
