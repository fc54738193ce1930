"""Native calls exchanged in place: every kind of callable is seen, stays itself, and is put back exactly."""

from __future__ import annotations

import array
import copy
import ctypes
import decimal
import inspect
import math
import os
import pickle
import struct
import subprocess
import sys
import textwrap
import threading
import types
from collections import Counter
from pathlib import Path

import pytest
from recorded_calls import calls, names, recording

from cutaway import _recorder, _sweep

pytestmark = pytest.mark.core

early = math.sqrt  # a reference from before the patch


def test_a_builtin_function_is_seen_through_every_reference(tmp_path: Path) -> None:
    _recorder.patch(math.sqrt, "math.sqrt", "backend")
    with recording(tmp_path):
        assert [math.sqrt(4), early(9), list(map(early, [16]))] == [2, 3, [4]]
    seen = calls(tmp_path)
    assert [c.fn for c in seen] == ["math.sqrt"] * 3
    assert {c.layer for c in seen} == {"backend"}
    assert {c.func for c in seen} == {
        "test_a_builtin_function_is_seen_through_every_reference"
    }


def test_it_stays_the_same_object_in_every_respect(tmp_path: Path) -> None:
    before = (repr(math.sqrt), math.sqrt.__doc__, math.sqrt.__text_signature__)
    _recorder.patch(math.sqrt, "math.sqrt", "backend")
    with recording(tmp_path):
        assert math.sqrt is early
        assert isinstance(math.sqrt, types.BuiltinFunctionType)
        assert (
            repr(math.sqrt),
            math.sqrt.__doc__,
            math.sqrt.__text_signature__,
        ) == before
        assert pickle.loads(pickle.dumps(math.sqrt)) is early
        assert copy.deepcopy(math.sqrt) is early
        assert str(inspect.signature(math.sqrt)) == "(x, /)"


def test_hash_and_equality_do_not_change(tmp_path: Path) -> None:
    table = {math.sqrt: 1}
    number = decimal.Decimal(4)
    bound = number.exp
    hashes = [hash(math.sqrt), hash(bound)]
    _recorder.patch(math.sqrt, "math.sqrt", "backend")
    _recorder.patch(vars(decimal.Decimal)["exp"], "Decimal.exp", "backend")
    with recording(tmp_path):
        for _ in range(2):  # armed, then switched off for a while
            assert table[math.sqrt] == 1
            assert number.exp == bound
            assert (number.exp != bound) is False
            assert number.exp != decimal.Decimal(5).exp
            assert math.sqrt != math.cos
            assert [hash(math.sqrt), hash(number.exp)] == hashes
            _recorder.pause()
        late = number.exp
        _recorder.resume()
        assert late == number.exp
        assert hash(late) == hash(number.exp)
    assert table[math.sqrt] == 1


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (
            decimal.Decimal,
            "sqrt",
            lambda: decimal.Decimal(4).sqrt(),
        ),  # method, keywords
        (
            decimal.Decimal,
            "is_zero",
            lambda: decimal.Decimal(4).is_zero(),
        ),  # method, no argument
        (
            decimal.Decimal,
            "from_float",
            lambda: decimal.Decimal.from_float(2.0),
        ),  # class method
        (
            struct.Struct,
            "unpack_from",
            lambda: struct.Struct("b").unpack_from(b"a"),
        ),  # method, fast call
        (array.array, "itemsize", lambda: array.array("b").itemsize),  # getter
        (
            array.array,
            "append",
            lambda: array.array("b").append(1),
        ),  # method, one argument
    ],
)
def test_methods_and_getters(
    tmp_path: Path, owner: type, name: str, call: object
) -> None:
    _recorder.patch(vars(owner)[name], name, "simulator")
    expected = call()  # type: ignore[operator]
    with recording(tmp_path):
        assert call() == expected  # type: ignore[operator]
    assert [c.fn for c in calls(tmp_path, "simulator") if c.fn == name] == [name]


def test_a_setter_is_recorded_beside_its_getter(tmp_path: Path) -> None:
    class Probe:
        pass

    _recorder.patch(vars(Probe)["__dict__"], "Probe.__dict__", "backend")
    with recording(tmp_path):
        probe = Probe()
        probe.__dict__ = {"x": 1}
        assert probe.__dict__ == {"x": 1}
    assert names(tmp_path, "backend") == ["Probe.__dict__=", "Probe.__dict__"]


def test_a_callable_with_its_own_vectorcall_pointer(tmp_path: Path) -> None:
    function = next(v for v in vars(_sweep).values() if type(v).__name__ == "nb_func")
    assert _recorder.patch(function, "nanobind function", "backend")
    with recording(tmp_path), pytest.raises(TypeError):
        function(no_such_argument=1)
    assert names(tmp_path) == ["nanobind function"]


def test_operators_also_of_subclasses_and_by_name(tmp_path: Path) -> None:
    class Money(decimal.Decimal):
        pass

    one, two = decimal.Decimal(1), decimal.Decimal(2)
    assert (
        _recorder.patch_type(
            decimal.Decimal, "Decimal", "backend", ("__add__", "__eq__", "__neg__")
        )
        == 3
    )
    with recording(tmp_path):

        class Later(decimal.Decimal):
            pass

        assert one + two == 3
        assert Money(1) + two == 3
        assert Later(1) + two == 3
        assert decimal.Decimal.__add__(one, two) == 3
        assert -one == -1
    seen = names(tmp_path)
    assert seen.count("Decimal.__add__") == 4
    assert seen.count("Decimal.__eq__") == 5
    assert seen.count("Decimal.__neg__") == 1
    again = tmp_path / "again"
    with recording(again):
        pass
    assert Later(1) + two == 3  # a subclass made meanwhile must not keep the thunk
    assert names(again) == []


def test_slots_of_the_interpreter_itself_are_left_alone() -> None:
    class Pure:
        def __add__(self, other: object) -> int:
            return 1

    assert _recorder.patch_type(Pure, "Pure", "backend") == 0
    assert _recorder.patch_type(int, "int", "backend") == 0
    assert not _recorder.patch(
        test_slots_of_the_interpreter_itself_are_left_alone, "f", "backend"
    )
    assert not _recorder.patch(object(), "object", "backend")


def test_patching_twice_records_once(tmp_path: Path) -> None:
    _recorder.patch(math.cos, "math.cos", "backend")
    assert not _recorder.patch(math.cos, "math.cos again", "backend")
    with recording(tmp_path):
        math.cos(0)
    assert names(tmp_path) == ["math.cos"]


def test_exceptions_pass_and_leave_the_nesting_whole(tmp_path: Path) -> None:
    _recorder.patch(math.sqrt, "math.sqrt", "backend")
    _recorder.patch(math.cos, "math.cos", "backend")
    with recording(tmp_path):
        for _ in range(100):
            with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
                math.sqrt(-1)
        math.cos(0)
    seen = calls(tmp_path)
    assert [c.fn for c in seen] == ["math.sqrt"] * 100 + ["math.cos"]
    assert all(c.parents == () for c in seen)


def test_calls_inside_a_call_nest(tmp_path: Path) -> None:
    import _functools

    _recorder.patch(_functools.reduce, "reduce", "simulator")
    _recorder.patch(math.gcd, "math.gcd", "backend")

    def both(a: int, b: int) -> int:
        return math.gcd(a, b)

    with recording(tmp_path):
        assert _functools.reduce(both, [12, 18, 27]) == 3
    seen = calls(tmp_path)
    assert [(c.fn, c.parents) for c in seen] == [
        ("reduce", ()),
        ("math.gcd", ("reduce",)),
        ("math.gcd", ("reduce",)),
    ]
    assert (
        seen[0].start
        <= seen[1].start
        <= seen[1].end
        <= seen[2].start
        <= seen[2].end
        <= seen[0].end
    )


def test_a_python_function_called_by_native_code_is_python_again(
    tmp_path: Path,
) -> None:
    import _functools

    def both(a: int, b: int) -> int:
        return math.gcd(a, b)

    _recorder.patch(_functools.reduce, "reduce", "simulator")
    _recorder.patch(math.gcd, "math.gcd", "backend")
    assert _recorder.patch_callback(both)
    assert not _recorder.patch_callback(math.gcd)
    with recording(tmp_path):
        assert _functools.reduce(both, [12, 18]) == 6
    assert [(c.layer, c.fn, c.parents) for c in calls(tmp_path)] == [
        ("simulator", "reduce", ()),
        ("python", "both", ("reduce",)),
        ("backend", "math.gcd", ("reduce", "both")),
    ]
    assert both(12, 18) == 6


def test_an_observer_sees_arguments_and_result_and_may_fail(tmp_path: Path) -> None:
    told: list[object] = []

    def observer(arguments: tuple[object, ...], result: object) -> None:
        told.append((arguments, result))
        raise RuntimeError("mine, not the program's")

    _recorder.patch_watched(math.fmod, "math.fmod", "backend", observer)
    with recording(tmp_path):
        assert math.fmod(7, 4) == 3
    assert told == [((7, 4), 3.0)]
    assert names(tmp_path) == ["math.fmod"]


def test_deep_recursion_is_bounded_and_recovers(tmp_path: Path) -> None:
    import _functools

    def deeper(a: int, b: int) -> int:
        return _functools.reduce(deeper, [a - 1, b]) if a > 0 else b

    _recorder.patch(_functools.reduce, "reduce", "simulator")
    with recording(tmp_path):
        assert deeper(100, 7) == 7
        math.cos(0)
    seen = calls(tmp_path)
    assert seen[-1].parents == () or seen[-1].fn == "reduce"
    assert max(len(c.parents) for c in seen) == 63


def test_threads_record_their_own_calls(tmp_path: Path) -> None:
    _recorder.patch(math.sqrt, "math.sqrt", "backend")

    def work() -> None:
        for i in range(2000):
            math.sqrt(i)

    with recording(tmp_path):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for _ in range(50):  # exchanged to and fro while the others call
            _recorder.pause()
            _recorder.resume()
        for thread in threads:
            thread.join()
        math.sqrt(1)
    seen = [c for c in calls(tmp_path) if c.fn == "math.sqrt"]
    assert 1 <= len(seen) <= 8001
    assert all(c.parents == () for c in seen)


def test_a_forked_child_records_into_its_own_trace(tmp_path: Path) -> None:
    _recorder.patch(math.sqrt, "math.sqrt", "backend")
    with recording(tmp_path):
        math.sqrt(1)
        pid = os.fork()
        if pid == 0:
            math.sqrt(2)
            math.sqrt(3)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        math.sqrt(4)
    seen = [c.pid for c in calls(tmp_path, "backend")]
    assert sorted(seen) == sorted([os.getpid(), pid, pid, os.getpid()])


def test_every_byte_is_put_back(tmp_path: Path) -> None:
    class Money(decimal.Decimal):
        pass

    objects = [
        math.tan,
        vars(decimal.Decimal)["sqrt"],
        vars(decimal.Decimal)["real"],
        vars(decimal.Decimal)["__sub__"],
    ]
    types_ = [decimal.Decimal, Money]

    def all_bytes() -> list[bytes]:
        return [_bytes_of(o) for o in objects] + [_slots_of(t) for t in types_]

    before = all_bytes()
    _recorder.patch(math.tan, "tan", "backend")
    _recorder.patch(vars(decimal.Decimal)["sqrt"], "sqrt", "backend")
    _recorder.patch(vars(decimal.Decimal)["real"], "real", "backend")
    _recorder.patch_type(decimal.Decimal, "Decimal", "backend", ("__sub__",))
    assert all_bytes() == before, "patching alone changes nothing"
    with recording(tmp_path):
        changed = [a != b for a, b in zip(all_bytes(), before, strict=True)]
        assert all(changed)
    assert all_bytes() == before


def _bytes_of(thing: object) -> bytes:
    return ctypes.string_at(
        id(thing) + 8, type(thing).__basicsize__ - 8
    )  # all but the reference count


def _slots_of(cls: type) -> bytes:
    """The function pointers of a type: its own and those of the three suites it points to."""
    own = ctypes.string_at(id(cls), 320)
    suites = struct.unpack_from(
        "3P", own, 96
    )  # tp_as_number, tp_as_sequence, tp_as_mapping
    inside = [
        ctypes.string_at(p, n * 8)
        for p, n in zip(suites, (36, 10, 3), strict=True)
        if p
    ]
    return own[24:168] + own[200:208] + own[216:232] + own[296:320] + b"".join(inside)


def test_what_is_called_often_moves_to_another_thunk_and_stays_what_it_was(
    tmp_path: Path,
) -> None:
    script = """
        import math, sys
        from cutaway import _recorder
        upper, sqrt = vars(str)["upper"], math.sqrt
        plain = hash("a".upper), sqrt
        for function, name in ((upper, "str.upper"), (sqrt, "math.sqrt")):
            assert _recorder.patch(function, name, "backend")
        _recorder.start(sys.argv[1])
        early = "a".upper                      # bound before the method moves
        for i in range(300):
            assert "abc".upper() == "ABC" and early() == "A" and sqrt(i * i) == i
            late = "a".upper
            assert early == late and hash(early) == hash(late) == plain[0]
        _recorder.pause()
        assert "abc".upper() == "ABC" and early() == "A" and sqrt(4) == 2
        _recorder.resume()
        assert "abc".upper() == "ABC" and early() == "A" and sqrt(4) == 2
        _recorder.stop()
        _recorder.restore()
        assert hash("a".upper) == plain[0] and "x".upper() == "X" and early() == "A" and sqrt(9) == 3
    """
    subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)],
        check=True,
        timeout=60,
    )
    seen = Counter(call.fn for call in calls(tmp_path))
    assert seen == {"str.upper": 602, "math.sqrt": 301}


def test_more_functions_than_thunks_are_refused_politely(tmp_path: Path) -> None:
    """Built-in functions made by hand: each adds 1 to its argument, by PyNumber_Add."""
    script = """
        import ctypes, sys, math
        from cutaway import _recorder

        class Definition(ctypes.Structure):
            _fields_ = [("name", ctypes.c_char_p), ("call", ctypes.c_void_p),
                        ("flags", ctypes.c_int), ("doc", ctypes.c_char_p)]

        make = ctypes.pythonapi.PyCFunction_NewEx
        make.restype = ctypes.py_object
        make.argtypes = [ctypes.POINTER(Definition), ctypes.py_object, ctypes.c_void_p]
        add = ctypes.cast(ctypes.pythonapi.PyNumber_Add, ctypes.c_void_p).value
        definition = Definition(b"add", add, 8, None)  # 8: METH_O
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))  # must outlive the functions
        functions = [make(definition, 1, None) for _ in range(9000)]
        done = sum(_recorder.patch(function, "add", "backend") for function in functions)
        assert 8000 < done < 9000, done
        assert _recorder.interception()["refused"] >= 9000 - done
        assert not _recorder.patch(math.sqrt, "math.sqrt", "backend")
        _recorder.start(sys.argv[1])
        assert math.sqrt(4) == 2
        assert {function(2) for function in functions} == {3}
        _recorder.stop()
        print(done)
    """
    words = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    patched = int(
        subprocess.run(words, check=True, capture_output=True, timeout=60).stdout
    )
    assert Counter(call.fn for call in calls(tmp_path)) == {"add": patched}
