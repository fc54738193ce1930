"""What recording costs real training programs, beside other profilers: `python -m benchmarks.overhead`.

A tool is switched on and off inside one process, in random order, and the CPU time of the iterations with it is
compared with the CPU time of those without. Comparing whole processes would drown one per cent in ten of noise.
"""
