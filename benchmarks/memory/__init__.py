"""Does memory tracking tell the truth? `python -m benchmarks.memory`: planted leaks, and programs that only fill a buffer."""
