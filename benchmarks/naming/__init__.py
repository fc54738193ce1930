"""How much of a program's time gets the right name without any annotation: `python -m benchmarks.naming`.

One file in `programs/` is one program, written in the style of its framework's own examples. An expert's annotation
stands in it (`truth.py`). Each program runs twice: with detection off and the annotation recorded as operations, and
with detection on and the annotation recorded beside it, so that every nanosecond has its true and its automatic name.
"""
