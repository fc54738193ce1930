"""Each native call carries the file, line and function that made it."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from recorded_calls import calls, recording

from cutaway import _recorder

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def _patched() -> None:
    _recorder.patch(math.sqrt, "math.sqrt", "backend")
    _recorder.patch(math.cos, "math.cos", "backend")


def _line(text: str) -> int:
    """The number of the only line of this file that ends in the comment."""
    lines = Path(__file__).read_text(encoding="utf-8").split("\n")
    (number,) = [i for i, line in enumerate(lines, 1) if line.endswith("# " + text)]
    return number


def test_lines_of_one_function(tmp_path: Path) -> None:
    def work() -> float:
        a = math.sqrt(1)  # first site
        b = sum(
            math.cos(i)  # second site
            for i in range(3)
        )
        return a + b

    with recording(tmp_path):
        work()
        work()
    seen = calls(tmp_path)
    assert {(c.fn, c.line) for c in seen} == {
        ("math.sqrt", _line("first site")),
        ("math.cos", _line("second site")),
    }
    assert {c.file for c in seen} == {__file__}
    assert all(c.func.endswith(("work", "<genexpr>")) for c in seen)
    assert len(seen) == 8


def test_two_functions_called_at_one_instruction_keep_their_names(
    tmp_path: Path,
) -> None:
    with recording(tmp_path):
        for function in [math.sqrt, math.cos] * 3:
            function(1)
    assert [c.fn for c in calls(tmp_path)] == ["math.sqrt", "math.cos"] * 3


def test_a_site_is_interned_once(tmp_path: Path) -> None:
    with recording(tmp_path):
        before = _recorder.interception()["sites"]
        for i in range(1000):
            math.sqrt(i)
        assert _recorder.interception()["sites"] == before + 1
    assert len(calls(tmp_path)) == 1000


def test_code_that_is_gone_does_not_lend_its_address(tmp_path: Path) -> None:
    with recording(tmp_path):
        for i in range(200):
            scope: dict[str, Any] = {"math": math}
            exec(
                compile(
                    f"def f{i}():\n    return math.sqrt({i})", f"made-{i}.py", "exec"
                ),
                scope,
            )
            scope[f"f{i}"]()
            del scope
    seen = calls(tmp_path)
    assert [(c.file, c.func, c.line) for c in seen] == [
        (f"made-{i}.py", f"f{i}", 2) for i in range(200)
    ]


def test_without_call_sites_only_the_function_is_known(tmp_path: Path) -> None:
    with recording(tmp_path, call_sites=False):
        math.sqrt(1)
        math.sqrt(2)
    assert {(c.fn, c.file, c.line, c.func) for c in calls(tmp_path)} == {
        ("math.sqrt", "", 0, "")
    }


def test_generators_lambdas_and_threads(tmp_path: Path) -> None:
    def numbers() -> Any:
        yield math.sqrt(1)  # in a generator

    with recording(tmp_path):
        list(numbers())
        thread = threading.Thread(target=lambda: math.sqrt(2))  # in a lambda
        thread.start()
        thread.join()
    seen = [c for c in calls(tmp_path) if c.fn == "math.sqrt"]
    assert {c.line for c in seen} == {_line("in a generator"), _line("in a lambda")}
    assert len({c.thread for c in seen}) == 2


def test_names_that_json_must_escape(tmp_path: Path) -> None:
    scope: dict[str, Any] = {"math": math}
    exec(
        compile("def zürich():\n    return math.sqrt(4)", 'quo"te\\back\n.py', "exec"),
        scope,
    )
    with recording(tmp_path):
        scope["zürich"]()
    (seen,) = calls(tmp_path)
    assert (seen.file, seen.func) == ('quo"te\\back\n.py', "zürich")


def test_an_operator_is_named_by_its_argument_and_its_site_is_outside_of_the_library(
    tmp_path: Path,
) -> None:
    path = tmp_path / "library.py"
    path.write_text(
        "def do(what): return deeper(what)\ndef deeper(what): return strftime(what)\n"
    )
    library: dict[str, Any] = {"strftime": time.strftime}
    exec(compile(path.read_text(), str(path), "exec"), library)
    _recorder.library(str(tmp_path))
    _recorder.patch_operator(
        time.strftime, "strftime", "backend", 0, lambda what: f"time({what})"
    )
    with recording(tmp_path):
        for _ in range(2):
            library["do"]("%H")  # hours
            library["do"]("%M")  # minutes
    seen = calls(tmp_path)
    hours, minutes = (
        ("time(%H)", __file__, _line("hours")),
        ("time(%M)", __file__, _line("minutes")),
    )
    assert [(c.fn, c.file, c.line) for c in seen] == [hours, minutes] * 2
