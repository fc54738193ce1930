"""Runs side by side: cells add up to totals, repeats give intervals, and an explanation finds the change that was made."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

US = 1000
STEPS = 4  # in an iteration


def make(
    path: Path,
    calls: int,
    python_us: int = 100,
    seed: int = 0,
    steps: int = STEPS,
    iterations: int = 40,
) -> Path:
    """Simulation of 500 µs, then backpropagation: `calls` native calls of 10 µs with `python_us` of Python between them."""
    rng = np.random.default_rng(seed)
    with RunWriter(path, command="train.py") as run:
        process = run.process(pid=1, name="main", start_ns=US)
        step = process.call(layer="simulator", fn="env.step")
        kernels = [process.call(layer="backend", fn=name) for name in ("matmul", "add")]
        simulation, update = process.name("simulation"), process.name("backpropagation")
        now, rows = US, [(US, 0, Kind.BEGIN, 0)]
        for number in range(1, iterations + 1):
            long = int(500 * US * rng.normal(1, 0.05))
            rows += [
                (now, number, Kind.ITERATION, 0),
                (now, 0, Kind.OP_ENTER, simulation),
                (now, long, Kind.CALL, step),
            ]
            now += long
            rows += [
                (now, steps, Kind.STEP, 0),
                (now, 0, Kind.OP_EXIT, simulation),
                (now, 0, Kind.OP_ENTER, update),
            ]
            for i in range(calls):
                now += python_us * US
                rows.append((now, 10 * US, Kind.CALL, kernels[i % 2]))
                now += 10 * US
            rows.append((now, 0, Kind.OP_EXIT, update))
        rows.append((now, 0, Kind.END, 0))
        process.thread(tid=1, name="MainThread").write(
            *map(np.array, zip(*rows, strict=True))
        )
        process.exit(code=0, t=now)
    return path  # fmt: skip


def compare(*words: object) -> str:
    command = [sys.executable, "-m", "cutaway", "compare", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def as_json(*words: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(compare(*words, "--json"))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`graph` makes 4 calls an update, `eager` 40; three repeats each. `plain` counts no steps."""
    top = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        for name, calls in (("graph", 4), ("eager", 40)):
            (top / name).mkdir(exist_ok=True)
            make(top / name / f"{seed}.cutaway", calls, seed=seed)
    make(top / "plain.cutaway", 4, steps=0)
    return top


def test_cells_add_up_and_times_are_for_each_step(folder: Path) -> None:
    found = as_json(folder / "graph", folder / "eager")
    assert found["unit"] == "step"
    for group, calls in zip(found["groups"], (4, 40), strict=True):
        assert group["runs"] == 3
        total = group["total_ns"]
        assert total["value"] == pytest.approx(
            sum(c["ns"]["value"] for c in group["cells"]), rel=1e-12
        )
        assert total["value"] == pytest.approx(
            (500 + 110 * calls) * US / STEPS, rel=0.02
        )
        assert total["low"] < total["value"] < total["high"]
        crossed = {
            (t["operation"], t["from"], t["to"]): t["count"]
            for t in group["transitions"]
        }
        assert crossed["backpropagation", "python", "backend"] == pytest.approx(
            calls / STEPS
        )
        assert crossed["simulation", "python", "simulator"] == pytest.approx(1 / STEPS)
    assert found["groups"][1]["ratio"]["value"] == pytest.approx(
        (500 + 4400) / (500 + 440), rel=0.02
    )


def test_the_unit_is_what_all_runs_count(folder: Path) -> None:
    assert as_json(folder / "graph", folder / "plain.cutaway")["unit"] == "iteration"
    one = as_json(folder / "eager" / "0.cutaway", "--per", "iteration")["groups"][0]
    assert one["total_ns"]["value"] == pytest.approx(4900 * US, rel=0.02)
    # Blocks of its iterations give one run an interval: half its noise of 25 µs over the root of 39.
    half = one["total_ns"]["high"] - one["total_ns"]["value"]
    assert 2 * US < half < 25 * US


def test_too_few_iterations_give_no_interval(tmp_path: Path) -> None:
    make(tmp_path / "short.cutaway", 4, iterations=4)
    total = as_json(tmp_path / "short.cutaway")["groups"][0]["total_ns"]
    assert total["value"] > 0 and total["low"] is total["high"] is None
    assert "?" in compare(tmp_path / "short.cutaway").splitlines()[1]


def test_an_explanation_divides_the_difference_and_adds_up(folder: Path) -> None:
    why = as_json(
        "--explain", folder / "graph", folder / "eager", "--per", "iteration"
    )["explanation"]
    assert sum(p["share"] for p in why["parts"]) == pytest.approx(1, abs=1e-12)
    assert sum(p["change_ns"] for p in why["parts"]) == pytest.approx(
        why["change_ns"], rel=1e-12
    )
    first, second = why["parts"][:2]
    assert (first["operation"], first["layer"]) == ("backpropagation", "python")
    assert first["change_ns"] == pytest.approx(3600 * US)
    assert (second["operation"], second["layer"]) == ("backpropagation", "backend")
    assert second["calls"] == pytest.approx([4, 40])
    assert {f["function"]: round(f["change_ns"]) for f in second["functions"]} == {
        "matmul": 180 * US,
        "add": 180 * US,
    }
    assert sum(f["change_ns"] for f in second["functions"]) == pytest.approx(
        second["change_ns"]
    )
    assert sum(second["resources"].values()) == pytest.approx(second["change_ns"])
    text = " ".join(
        compare(
            "--explain", folder / "graph", folder / "eager", "--per", "iteration"
        ).split()
    )
    assert (
        "eager takes 5.2" in text
        and "% of the difference is Python in backpropagation" in text
    )
    assert "4 -> 40 calls per iteration; most in" in text
    shares = [int(s) for s in re.findall(r"(-?\d+)% (?:of the|is every)", text)]
    assert abs(sum(shares) - 100) <= len(shares)


def test_ratios_refer_to_the_run_that_was_asked_for(folder: Path) -> None:
    found = as_json(
        folder / "graph", folder / "eager", "--relative-to", folder / "eager"
    )
    assert found["relative_to"] == "eager"
    assert (
        found["groups"][0]["ratio"]["value"] < 0.25
        and found["groups"][1]["ratio"]["value"] == 1
    )


def test_the_table_fits_80_columns_and_names_the_next_command(folder: Path) -> None:
    text = compare(folder / "graph", folder / "eager", folder / "plain.cutaway")
    assert max(map(len, text.splitlines()[:-1])) <= 80
    assert "backpropagation" in text and "python->backend" in text
    assert text.splitlines()[-1].startswith("next: cutaway compare --explain ")


def test_the_figure_and_the_page_show_every_run_and_need_nothing_else(
    folder: Path, tmp_path: Path
) -> None:
    figure, page = tmp_path / "bars.svg", tmp_path / "bars.html"
    both = [folder / "graph", folder / "eager"]
    compare(*both, "--figure", figure, "-o", page, "--explain", *both)
    drawn, written = figure.read_text(), page.read_text()
    assert (
        drawn.startswith("<svg")
        and "<title>eager: backpropagation, python, cpu: 1.00 ms</title>" in drawn
    )
    heights = {
        name: [float(h) for h in re.findall(rf'height="([\d.]+)"[^>]*><title>{name}: backpropagation, backend, cpu', drawn)]
        for name in ("graph", "eager")
    }  # fmt: skip
    assert heights["eager"][0] == pytest.approx(10 * heights["graph"][0], rel=0.1)
    assert "Content-Security-Policy" in written and "http://" not in written.replace(
        "http://www.w3.org", ""
    )
    assert "eager takes 5.2" in written


def test_mistakes_are_one_sentence_with_a_remedy(folder: Path, tmp_path: Path) -> None:
    for words, told in (
        ([], "name two or more runs"),
        ([folder / "plain.cutaway", "--per", "step"], "--per"),
        ([folder / "graph", "--figure", tmp_path / "bars.gif"], ".svg, .png or .pdf"),
    ):
        command = [sys.executable, "-m", "cutaway", "compare", *map(str, words)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (
            done.returncode in (1, 2)
            and told in done.stderr
            and "Traceback" not in done.stderr
        )


def test_png_is_drawn_by_a_library_or_refused_with_its_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import cutaway
    from cutaway.analysis.compare import group
    from cutaway.drawing.files import write
    from cutaway.reports.comparison_figure import drawn

    groups = [group("graph", [cutaway.open(folder / "graph" / "0.cutaway")], "step")]
    picture = drawn(groups)
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    with pytest.raises(
        cutaway.CutawayError, match=r"pip install cairosvg, or write an \.svg"
    ):
        write(tmp_path / "bars.png", picture)

    def svg2png(bytestring: bytes) -> bytes:
        assert bytestring.startswith(b"<svg")
        return b"PNG"

    monkeypatch.setitem(sys.modules, "cairosvg", SimpleNamespace(svg2png=svg2png))
    write(tmp_path / "bars.png", picture)
    assert (tmp_path / "bars.png").read_bytes() == b"PNG"
    with pytest.raises(cutaway.CutawayError, match="choose another folder"):
        write(tmp_path / "absent" / "bars.png", picture)


PROGRAM = """
import sys, time, cutaway
from heavy import abstract

def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def added():
    end = time.thread_time() + float(sys.argv[1])
    while time.thread_time() < end:
        pass
    abstract(float(sys.argv[1]) / 2)

for _ in range(60):
    cutaway.iteration()
    with cutaway.operation("backpropagation"):
        spin(0.004)
        added()
"""


LIBRARY = """
import time

def abstract(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass
"""


def test_a_recorded_difference_is_found_in_the_function_and_the_package_that_make_it(
    tmp_path: Path,
) -> None:
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    library = tmp_path / "site-packages" / "heavy"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text(LIBRARY)
    environment = {**os.environ, "PYTHONPATH": str(library.parent)}
    runs = [tmp_path / "before.cutaway", tmp_path / "after.cutaway"]
    for run, seconds in zip(runs, ("0.0", "0.012"), strict=True):
        command = [
            sys.executable,
            "-m",
            "cutaway",
            "run",
            "-q",
            "-o",
            str(run),
            str(program),
            seconds,
        ]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
    why = as_json("--explain", *runs)["explanation"]
    python = next(
        p
        for p in why["parts"]
        if (p["operation"], p["layer"]) == ("backpropagation", "python")
    )
    assert sum(f["change_ns"] for f in python["functions"]) == pytest.approx(
        python["change_ns"]
    )
    first = python["functions"][0]
    assert re.fullmatch(r"added \(.*/train\.py\)", first["function"])
    assert (
        first["change_ns"] > 6_000 * US
    )  # half of what it burns; on a busy machine it takes longer
    packages = why["packages"]
    assert list(packages)[:2] == ["the program's own code", "heavy"]
    changed = sum(p["change_ns"] for p in why["parts"] if p["layer"] == "python")
    assert sum(packages.values()) == pytest.approx(changed, rel=0.02)
    assert re.search(
        r"share of the difference: the program's own code \d+% .*, heavy \d+% ",
        " ".join(why["sentences"]),
    )
    # A run explained by itself has no difference to divide.
    assert "1.00" in compare("--explain", runs[1], runs[1])
