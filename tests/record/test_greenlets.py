"""Real greenlets: they take turns on one thread and exchange the stack below them, in the middle of operations and of native calls."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import record, script

import cutaway

pytestmark = pytest.mark.core

PROGRAM = """
    import pickle
    import cutaway
    import greenlet

    def moves():
        for number in range(100_000):
            number * number

    def acts():
        for number in range(100_000):
            number + number

    def environment():
        while True:
            with cutaway.operation("simulation"):
                moves()
                main.switch()
                moves()

    class Packed:
        def __init__(self, way):
            self.way = way
        def __reduce__(self):
            self.way()
            return str, ()

    def packing():
        with cutaway.operation("replay"):
            pickle.dumps([Packed(main.switch) for _ in range(5)])

    main = greenlet.getcurrent()
    other = greenlet.greenlet(environment)
    for _ in range(50):
        other.switch()
        with cutaway.operation("inference"):
            acts()

    # Two native calls: the one that began first ends first.
    second = greenlet.greenlet(packing)
    with cutaway.operation("checkpoint"):
        pickle.dumps([Packed(second.switch) for _ in range(5)])
    assert not second.dead
    second.switch()
    assert second.dead
    for _ in range(7):
        pickle.dumps(list(range(10_000)))
"""


def test_each_greenlet_keeps_its_operations_and_calls(tmp_path: Path) -> None:
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py")
    # A stretch of an operation begins where it was entered and at each return into it.
    stretches = {"simulation": 50 + 49, "inference": 50, "checkpoint": 6, "replay": 6}
    assert dict(seen.operations) == stretches
    assert not [inner for inner, outer in seen.inside if outer]
    run = cutaway.open(tmp_path / "run.cutaway")
    packed = [
        (row["operation"], row["caller"], row["count"])
        for row in run.callsites()
        if row["function"] == "pickle.dumps"
    ]
    assert sorted(packed) == [
        ("", "<module>", 7),
        ("checkpoint", "<module>", 1),
        ("replay", "packing", 1),
    ]
    assert not any(run.losses().values())
    sampled = {
        (row["operation"], row["your_function"])
        for row in run.lines("function")
        if row["samples"] and row["operation"] in ("simulation", "inference")
    }
    assert {function for _, function in sampled} >= {"moves", "acts"}
    assert ("simulation", "acts") not in sampled
    assert ("inference", "moves") not in sampled
