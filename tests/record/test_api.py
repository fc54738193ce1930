"""The public names: what there is, what importing them costs in modules, and recording from inside."""

from __future__ import annotations

import doctest
import os
import stat
import subprocess
import sys
from inspect import signature
from pathlib import Path

import pytest
from recorded import read

import cutaway

pytestmark = pytest.mark.core


def test_the_public_names() -> None:
    assert set(cutaway.__all__) == {
        "CutawayError", "describe", "gauge", "iteration", "layer", "open", "operation", "phase", "record", "step",
    }  # fmt: skip
    assert all(callable(getattr(cutaway, name)) for name in cutaway.__all__)
    assert set(cutaway.__all__) <= set(dir(cutaway))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = cutaway.nothing


def test_the_public_names_for_hooks() -> None:
    import cutaway.instrument

    options = {"steps", "iteration", "update", "unless"}
    taken = {
        name: signature(getattr(cutaway.instrument, name)).parameters
        for name in cutaway.instrument.__all__
    }
    assert {name: set(parameters) - options for name, parameters in taken.items()} == {
        "instrument": {"owner", "name", "operation"},
        "instrument_family": {"base", "names", "operation", "leave"},
        "instrument_items": {"owner", "name", "operation"},
    }
    assert all(options <= set(parameters) for parameters in taken.values())


def test_the_examples_in_docstrings_hold() -> None:
    import cutaway.record.session

    for module in (cutaway, sys.modules["cutaway.record"], cutaway.record.session):
        result = doctest.testmod(module, optionflags=doctest.ELLIPSIS)  # type: ignore[arg-type]
        assert result.failed == 0


def test_importing_brings_in_only_the_standard_library_and_the_recorder() -> None:
    code = """if True:
        import sys
        before = set(sys.modules)
        import cutaway
        cutaway.operation, cutaway.phase, cutaway.iteration, cutaway.step, cutaway.record, cutaway.layer
        new = {m.split('.')[0] for m in set(sys.modules) - before}
        print(sorted(new - set(sys.stdlib_module_names)))
        print(sorted(m for m in sys.modules if m.startswith('cutaway.') and 'analysis' in m))
    """
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert out == "['cutaway']\n[]\n"


def test_recording_brings_in_only_the_standard_library_and_the_recorder(
    tmp_path: Path,
) -> None:
    code = """if True:
        import sys
        print(sorted({m.split('.')[0] for m in sys.modules} - set(sys.stdlib_module_names) - {'__main__'}))
        print('cutaway._recorder' in sys.modules)
    """
    environment = {**os.environ, "CUTAWAY": str(tmp_path / "a.cutaway")}
    plain, recorded = (
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env=e,
        ).stdout
        for e in ({**os.environ, "CUTAWAY": ""}, environment)
    )
    ours = set(eval(recorded.splitlines()[0])) - set(eval(plain.splitlines()[0]))
    assert ours <= {"cutaway"}
    assert recorded.splitlines()[1] == "True"


def test_recording_from_inside(tmp_path: Path) -> None:
    path = tmp_path / "notebook.cutaway"
    with cutaway.operation("before"):
        pass
    with cutaway.record(str(path)):
        for _ in range(3):
            cutaway.iteration()
            with cutaway.operation("inference"):
                cutaway.step(4)
    with cutaway.operation("after"):
        pass
    (seen,) = read(path)
    assert dict(seen.operations) == {"inference": 3}
    assert (seen.iterations, seen.steps) == (3, 12)
    assert stat.S_IMODE(path.stat().st_mode) == 0o700


def test_facts_that_a_program_tells_are_in_the_summary(tmp_path: Path) -> None:
    class Odd:
        def __str__(self) -> str:
            raise ValueError("no text")

    cutaway.describe(batch=1)  # nothing records: nothing happens
    with cutaway.record(str(tmp_path / "a")):
        cutaway.describe(
            batch=64, algorithm="PPO", pinned=True, ratio=0.5, limit=float("inf")
        )
        cutaway.describe(batch=32)
        cutaway.describe(odd=Odd())
    facts = cutaway.open(str(tmp_path / "a")).summary()["facts"]
    assert facts == {
        "batch": 32,
        "algorithm": "PPO",
        "pinned": True,
        "ratio": 0.5,
        "limit": "inf",
    }


def test_recording_twice_in_one_process_gives_two_runs(tmp_path: Path) -> None:
    for name in ("one", "two"):
        with cutaway.record(str(tmp_path / name)), cutaway.operation(name):
            pass
    for name in ("one", "two"):
        (seen,) = read(tmp_path / name)
        assert dict(seen.operations) == {name: 1}


def test_recording_inside_a_recording_is_part_of_it(tmp_path: Path) -> None:
    with (
        cutaway.record(str(tmp_path / "outer")),
        cutaway.record(str(tmp_path / "inner")),
    ):
        with cutaway.operation("work"):
            pass
    assert read(tmp_path / "outer")[0].operations["work"] == 1
    assert not (tmp_path / "inner").exists()


def test_a_name_that_is_taken_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(cutaway.CutawayError, match="choose another name"):
        with cutaway.record(str(tmp_path)):
            pass


def test_an_exception_leaves_the_block_unchanged(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        with cutaway.record(str(tmp_path / "a")), cutaway.operation("work"):
            _ = 1 / 0
    assert read(tmp_path / "a")[0].operations["work"] == 1
