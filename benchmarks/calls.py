"""What one recorded native call costs: nanoseconds above the bare call, by calling convention.

    python benchmarks/calls.py

Bare, recorded and recorded with call site are measured in turn, many times over, in one process; the smallest of each counts, because
whatever else runs on the machine only adds.
"""

from __future__ import annotations

import array
import decimal
import math
import struct
import tempfile
import time
from collections.abc import Callable
from typing import Any

from cutaway import _recorder, _sweep

N = 2000
ROUNDS = 200


def _conventions() -> dict[str, tuple[Any, Callable[[], Callable[[int], None]]]]:
    """Name → (what is patched, a maker of the loop that calls it n times)."""
    packer, number, numbers = (
        struct.Struct("b"),
        decimal.Decimal(1),
        array.array("b", [1]),
    )
    nanobind = next(v for v in vars(_sweep).values() if type(v).__name__ == "nb_func")
    return {
        "function, one argument": (math.sqrt, lambda: _loop("f(2.0)", f=math.sqrt)),
        "function, many arguments": (math.gcd, lambda: _loop("f(2, 4)", f=math.gcd)),
        "method, no argument": (
            vars(decimal.Decimal)["is_zero"],
            lambda: _loop("x.is_zero()", x=number),
        ),
        "method, keywords": (
            vars(struct.Struct)["unpack_from"],
            lambda: _loop("x.unpack_from(b'a')", x=packer),
        ),
        "getter": (vars(struct.Struct)["size"], lambda: _loop("x.size", x=packer)),
        "operator": (decimal.Decimal, lambda: _loop("x + x", x=number)),
        "subscript": (array.array, lambda: _loop("x[0]", x=numbers)),
        "vectorcall (nanobind), raising": (
            nanobind,
            lambda: _loop("try: f(1)\n        except TypeError: pass", f=nanobind),
        ),
    }


def _loop(statement: str, **names: Any) -> Callable[[int], None]:
    scope = dict(names)
    parameters = ", ".join(f"{name}={name}" for name in names)
    exec(
        f"def loop(n, {parameters}):\n    for _ in range(n):\n        {statement}",
        scope,
    )
    return scope["loop"]  # type: ignore[no-any-return]


def _once(loop: Callable[[int], None]) -> float:
    start = time.perf_counter_ns()
    loop(N)
    return (time.perf_counter_ns() - start) / N


def measure(call_sites: bool) -> dict[str, tuple[float, float]]:
    """For each convention the bare and the recorded nanoseconds."""
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        _recorder.start(folder, call_sites=call_sites)
        for name, (_, make) in _conventions().items():
            loop = make()
            times: dict[bool, float] = {False: math.inf, True: math.inf}
            for _ in range(ROUNDS):
                for recorded in (True, False):
                    (_recorder.resume if recorded else _recorder.pause)()
                    times[recorded] = min(times[recorded], _once(loop))
            _recorder.resume()
            result[name] = (times[False], times[True])
        _recorder.restore()
        _recorder.stop()
    return result


def main() -> None:
    for name, (target, _) in _conventions().items():
        if isinstance(target, type):
            _recorder.patch_type(target, name, "backend", ("__add__", "__getitem__"))
        else:
            _recorder.patch(target, name, "backend")
    plain, sited = measure(False), measure(True)
    print(
        f"{'ns per call':32} {'bare':>6} {'recorded':>9} {'+':>5} {'with site':>10} {'+':>5}"
    )
    for name, (bare, recorded) in plain.items():
        bare_too, with_site = sited[name]
        least = min(bare, bare_too)
        print(
            f"{name:32} {least:6.1f} {recorded:9.1f} {recorded - least:5.1f} {with_site:10.1f} {with_site - least:5.1f}"
        )


if __name__ == "__main__":
    main()
