"""CUTAWAY in the environment records any Python below it; without it nothing happens at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import one, read

from cutaway.record.options import Options, iterations, seconds, size

pytestmark = pytest.mark.core

WORK = "import cutaway\nwith cutaway.operation('work'): pass"


def python(
    *words: str, cutaway: str | None, cwd: Path
) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "CUTAWAY"}
    if cutaway is not None:
        environment["CUTAWAY"] = cutaway
    return subprocess.run(
        [sys.executable, *words],
        env=environment,
        cwd=cwd,
        capture_output=True,
        text=True,
    )


def test_the_variable_set_by_hand_makes_the_folder_and_records(tmp_path: Path) -> None:
    for _ in range(2):
        assert (
            python("-c", WORK, cutaway="by-hand.cutaway", cwd=tmp_path).returncode == 0
        )
    seen = read(tmp_path / "by-hand.cutaway")
    assert [p.operations["work"] for p in seen] == [1, 1]


def test_nothing_is_imported_without_the_variable(tmp_path: Path) -> None:
    done = python("-c", "import sys; print([m for m in sys.modules if 'cutaway' in m and 'editable' not in m])",
                  cutaway=None, cwd=tmp_path)  # fmt: skip
    assert done.stdout == "[]\n"


def test_recording_imports_the_standard_library_and_nothing_else(
    tmp_path: Path,
) -> None:
    code = "import sys; print(*sys.modules)"
    without = python("-c", code, cutaway=None, cwd=tmp_path).stdout.split()
    recorded = python(
        "-c", code, cutaway=str(tmp_path / "a"), cwd=tmp_path
    ).stdout.split()
    new = {name.partition(".")[0] for name in set(recorded) - set(without)}
    assert "cutaway" in new
    assert new - {"cutaway"} <= sys.stdlib_module_names


def test_isolated_interpreters_are_recorded_too(tmp_path: Path) -> None:
    python("-I", "-c", WORK, cutaway=str(tmp_path / "a"), cwd=tmp_path)
    assert read(tmp_path / "a")[0].operations["work"] == 1


def test_a_folder_that_cannot_be_made_costs_one_sentence(tmp_path: Path) -> None:
    done = python("-c", "print('trained')", cutaway="/proc/a.cutaway", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert done.stderr.count("\n") == 1


def test_launchers_own_helpers_are_left_out(tmp_path: Path) -> None:
    code = """if True:
        import multiprocessing as mp
        from multiprocessing import resource_tracker
        resource_tracker.ensure_running()
    """
    python("-c", code, cutaway=str(tmp_path / "a"), cwd=tmp_path)
    one(read(tmp_path / "a"))


@pytest.mark.parametrize(
    "options",
    [
        Options("/a/b.cutaway"),
        Options(
            "/with?odd&characters 100%/b", simulators=("one", "two"), window_s=30.0
        ),
        Options(
            "/a",
            auto=False,
            layers=False,
            call_sites=False,
            max_bytes=10**9,
            collector="none",
        ),
        Options(
            "/a",
            after_iterations=100,
            for_iterations=50,
            calibrate_share=0.05,
            sample_hz=2.5,
        ),
    ],
)
def test_options_travel_through_the_environment(options: Options) -> None:
    assert Options.from_text(options.to_text()) == options


def test_options_written_by_hand(tmp_path: Path) -> None:
    text = "/a?window=5m&after=100it&for=50it&max_size=2GB&simulator=mysim&auto=off&nonsense=1&sample_hz=often"
    expected = Options(
        "/a",
        auto=False,
        simulators=("mysim",),
        window_s=300.0,
        after_iterations=100,
        for_iterations=50,
        max_bytes=2 * 10**9,
    )
    assert Options.from_text(text) == expected


def test_units() -> None:
    assert [seconds(t) for t in ("30", "30s", "250ms", "5m", "1.5h")] == [
        30,
        30,
        0.25,
        300,
        5400,
    ]
    assert [size(t) for t in ("1", "500MB", "2GiB", "1.5kb")] == [
        1,
        500_000_000,
        2 << 30,
        1500,
    ]
    assert [iterations(t) for t in ("100it", "7")] == [100, 7]
    for read_unit, text in ((seconds, "soon"), (size, "5 apples"), (iterations, "10s")):
        with pytest.raises(ValueError):
            read_unit(text)
