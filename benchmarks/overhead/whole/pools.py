"""Like `prefetch`, with a pool of two threads in torch: three threads want two cores, and those of the pool wait for each other."""

from __future__ import annotations

from benchmarks.overhead.whole.pace import run_for, seconds_asked
from benchmarks.overhead.whole.prefetch import POOLS, learner

if __name__ == "__main__":
    run_for(seconds_asked(), learner(**POOLS).update)
