"""A NumPy program with operations of its own, in two processes and a thread."""

import os
import threading
import time

import numpy as np

import cutaway

weights = np.eye(16)


def act():
    with cutaway.operation("inference"):
        np.linalg.solve(weights, weights)


for _ in range(20):
    cutaway.iteration()
    with cutaway.operation("simulation"):
        time.sleep(0.001)
        cutaway.step(2)
    act()
thread = threading.Thread(target=act)
thread.start()
thread.join()
child = os.fork()
if child == 0:
    act()
    os._exit(0)
os.waitpid(child, 0)
