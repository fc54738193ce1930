"""What 0.1 called something still works, and says so where docs/stability.md promises a warning."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import cutaway
from cutaway.analysis.query import query
from cutaway.analysis.run import Run
from cutaway.commands import build_parser, main
from cutaway.record.options import Options

sys.path.insert(0, str(Path(__file__).parent / "analysis"))

from analysis_runs import write_demo

pytestmark = pytest.mark.core


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return cutaway.open(write_demo(tmp_path / "demo.cutaway"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hotspots", "callsites"),
        ("launched", "launched_work"),
        ("launches", "launch_waits"),
    ],
)
def test_tables_have_their_old_names(run: Run, old: str, new: str):
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now"):
        table = getattr(run, old)()
    assert table == getattr(run, new)()


def test_a_table_that_never_was_is_an_error(run: Run):
    with pytest.raises(AttributeError, match="'coldspots'"):
        getattr(run, "coldspots")  # noqa: B009


def test_a_column_has_its_old_name(run: Run):
    table = run.breakdown()
    with pytest.warns(DeprecationWarning, match="called uncorrected_ns now"):
        old = table["short_ns"]
    assert old.tolist() == table["uncorrected_ns"].tolist()
    assert "short_ns" not in table.columns


def test_queries_know_the_old_names(run: Run):
    counted = query(run, "SELECT count(*) AS n FROM hotspots")["n"].tolist()
    assert counted == [len(run.callsites())]
    answer = query(
        run, "SELECT sum(short_ns) AS old, sum(uncorrected_ns) AS new FROM cells"
    )
    assert answer["old"].tolist() == answer["new"].tolist()


def test_options_have_their_old_names():
    new = Options("/a", collector="kineto", store_arguments=True)
    assert Options("/a", device="kineto", keep_arguments=True) == new
    assert Options.from_text("/a?device=kineto&keep_arguments=1") == new


def test_flags_have_their_old_names():
    parser = build_parser([])
    args = parser.parse_args(
        ["run", "--device", "none", "--keep-arguments", "train.py"]
    )
    assert args.collector == "none" and args.store_arguments


def test_show_over_time_has_its_old_name(run: Run, capsys: pytest.CaptureFixture[str]):
    path = str(run.trace.path)
    assert main(["show", path, "--over", "time"]) == 0
    old = capsys.readouterr().out
    assert main(["show", path, "--over-time"]) == 0
    assert old == capsys.readouterr().out
