"""The page of `cutaway what-if`, of a constructed run whose answer is known: three workers in lockstep, the last one slow."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from constructed import lockstep

pytestmark = pytest.mark.core


def page(folder: Path, *words: str) -> str:
    run = lockstep(folder / "r.cutaway")
    command = [sys.executable, "-m", "cutaway", "what-if", str(run), *words]
    subprocess.run(
        [*command, "-o", str(folder / "page.html")],
        check=True,
        capture_output=True,
        timeout=60,
    )
    return (folder / "page.html").read_text()


def rows(html: str) -> list[list[str]]:
    """The texts of the cells of each row."""
    found = []
    for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL):
        cells = re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        found.append([re.sub(r"<[^>]*>", "", one) for one in cells])
    return [row for row in found if row]


def test_what_everything_is_worth(tmp_path: Path) -> None:
    html = page(tmp_path)
    assert "simulation is worth most" in html
    free = {row[1]: row[-1] for row in rows(html)}
    assert free["simulation"] == "3.00 times as fast"
    assert free["worker-2 (4)"] == "2.00 times as fast"
    assert free["worker-0 (2)"] == "1.00 times as fast"


def test_a_change(tmp_path: Path) -> None:
    html = page(tmp_path, "simulation=2x")
    assert "simulation=2x: 1.50 times as fast" in html
    (row,) = rows(html)
    assert row[3:] == ["40 ms", "60 ms"]
    assert "<svg" not in html.partition("<table")[0]  # one point is no curve


def test_a_curve_is_drawn(tmp_path: Path) -> None:
    html = page(tmp_path, "cores=1,2,3")
    assert "<svg" in html.partition("<table")[0]
    assert "cores=1: 1.00 times as fast" in html
    assert [row[0] for row in rows(html)] == ["cores=1", "cores=2", "cores=3"]
