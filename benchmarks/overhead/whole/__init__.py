"""What recording costs programs with several threads or processes: `python -m benchmarks.overhead.whole`.

Switching the recorder on and off inside one process says nothing about its threads, which run all the time, or about other
processes. So these programs run whole, recorded and unrecorded in turn, and their pace is compared.
"""
