"""Like `prefetch`, with a pool of two threads in torch: three threads want two cores, and those of the pool wait for each other."""

from __future__ import annotations

from benchmarks.overhead.whole.prefetch import train

if __name__ == "__main__":
    train(threads=2, width=512, normalised=60)
