"""Distributed R2D2 and IMPALA with central inference, in PyTorch; run as `python -m cutaway_workloads.r2d2`.

Importing this package imports nothing heavy: actor processes never load PyTorch.
"""
