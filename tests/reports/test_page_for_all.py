"""The pages for everybody: screen readers and keyboards (axe-core), paper, and runs that are far larger than a screen."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from benchmarks import accessibility
from benchmarks.browser import Browser

from cutaway.commands import main
from cutaway.reports.digests import open_run
from cutaway.reports.page.data import build_page, page_data
from cutaway.trace.files import write_private
from cutaway_balance import page as grid_page
from cutaway_balance.grid import Row

from .runs import crowd, language, many_spans, single, with_device

# Counts what is painted on canvases from now on.
COUNT = """(() => { window.painted = 0;
    const pen = CanvasRenderingContext2D.prototype, fill = pen.fillRect;
    pen.fillRect = function (...where) { window.painted += 1; return fill.apply(this, where); }; })()"""
ELEMENTS = "document.querySelectorAll('*').length"


@pytest.fixture(scope="module")
def axe() -> str:
    return accessibility.axe()


def written(folder: Path, run: Path) -> Path:
    file = folder / "page.html"
    file.write_text(build_page(run), encoding="utf-8")
    return file


@pytest.mark.parametrize("make", [single, crowd, with_device, language])
def test_axe_core_finds_nothing_on_the_page_of_a_run(
    browser: Browser, axe: str, make: object, tmp_path: Path
) -> None:
    page = written(tmp_path, make(tmp_path / "r.cutaway"))  # type: ignore[operator]
    for dark in (False, True):
        assert accessibility.violations(browser, page, axe, dark) == []


def test_axe_core_finds_nothing_on_the_pages_of_several_runs(
    browser: Browser, axe: str, tmp_path: Path
) -> None:
    a = str(single(tmp_path / "a.cutaway"))
    b = str(single(tmp_path / "b.cutaway", operation="search"))
    diff, compare = str(tmp_path / "diff.html"), str(tmp_path / "compare.html")
    assert main(["diff", a, b, "-o", diff]) == 0
    assert main(["compare", a, b, "--explain", a, b, "-o", compare]) == 0
    for page in (diff, compare):
        for dark in (False, True):
            found = accessibility.violations(browser, Path(page), axe, dark)
            assert found == [], page


def test_axe_core_finds_nothing_on_the_page_of_balance(
    browser: Browser, axe: str, tmp_path: Path
) -> None:
    page = tmp_path / "grid.html"
    write_private(page, grid_page.page("train.py", grid(), []))
    for dark in (False, True):
        assert accessibility.violations(browser, page, axe, dark) == []


def test_axe_core_notices_what_is_wrong(
    browser: Browser, axe: str, tmp_path: Path
) -> None:
    # Given a page whose verdict is written in a grey that nobody can read.
    page = written(tmp_path, single(tmp_path / "r.cutaway"))
    style = ".verdict .said { color: #ccc; }"
    browser.open(page)
    browser.dark(False)
    browser.run(f"document.styleSheets[0].insertRule({style!r})")
    browser.run(axe)
    found = browser.run(accessibility.RUN)
    assert any("color-contrast" in one for one in found)


def grid() -> list[Row]:
    rest = {
        "points": 3,
        "cpu_cores": 1.5,
        "foreign_cores": 0.0,
        "gpu_w": None,
        "cpu_w": None,
        "steps_per_j": None,
        "marks": "",
    }
    rates = {1: 100.0, 4: 350.0, 16: 900.0}
    return [
        Row(actors, None, None, rate, 0.9 * rate, 1.1 * rate, **rest)  # type: ignore[arg-type]
        for actors, rate in rates.items()
    ]


def painted(browser: Browser, page: Path) -> list[int]:
    """How much is painted for the whole run, and after each of three zooms."""
    browser.open(page)
    browser.run("document.querySelector('nav button')?.click()")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.settle()
    browser.run(COUNT)
    browser.run("document.querySelector('.lanes').focus()")
    counts = []
    for key in ("0", "+", "+", "+"):
        browser.run("window.painted = 0")
        browser.key(key)
        browser.settle()
        counts.append(int(browser.run("window.painted")))
    return counts


def test_a_million_spans_are_no_more_to_draw_than_ten_thousand(
    browser: Browser, tmp_path: Path
) -> None:
    few = written(tmp_path, many_spans(tmp_path / "few.cutaway", 10_000))
    for_few, elements = painted(browser, few), int(browser.run(ELEMENTS))
    many = written(tmp_path, many_spans(tmp_path / "many.cutaway", 1_000_000))
    assert len(many.read_bytes()) < 1_000_000
    for_many = painted(browser, many)
    # One row has a thousand columns of pixels and four colours: what there is to see bounds what is drawn.
    width = int(browser.run("document.querySelector('.lanes canvas').clientWidth"))
    assert 0 < max(for_many) <= 5 * width
    assert max(for_many) <= 2 * max(for_few)
    assert int(browser.run(ELEMENTS)) <= 1.2 * elements
    assert browser.problems == []


def test_a_thousand_processes_are_no_more_to_draw_than_fit_on_the_screen(
    browser: Browser, tmp_path: Path
) -> None:
    page = written(tmp_path, crowd(tmp_path / "r.cutaway", workers=999, iterations=10))
    assert len(page.read_bytes()) < 1_000_000
    counts = painted(browser, page)
    tall, wide = browser.run(
        "(() => { const c = document.querySelector('.lanes canvas'); return [c.clientHeight, c.clientWidth]; })()"
    )
    rows = tall // 22 + 1
    assert 0 < max(counts) <= 6 * rows * wide
    assert int(browser.run(ELEMENTS)) < 5_000
    said = browser.run("document.querySelector('#lanes-range').textContent")
    assert "1000 rows" in said


def test_the_odd_one_out_of_a_thousand_is_in_sight(tmp_path: Path) -> None:
    run = open_run(crowd(tmp_path / "r.cutaway", workers=40, iterations=10, slow=31))
    lanes = page_data(run)["sections"]["lanes"]
    assert lanes["rows"][:3] == ["learner", "env-31", "env-00"]
    assert len(lanes["rows"]) == 41 == len(set(lanes["rows"]))
    assert "the odd ones out first" in lanes["title"]


def test_of_many_batches_a_few_are_drawn(tmp_path: Path) -> None:
    # Given 40 batches, a tenth of a second each: 8 sequences for 15 ms, then one for 45 ms.
    run = open_run(language(tmp_path / "r.cutaway", iterations=40))
    rows = page_data(run)["sections"]["tail"]["rows"]
    batches = rows[0]
    assert batches["title"].startswith("sequences decoding, 8 of ")
    assert batches["to"] - batches["from"] == pytest.approx(0.8)
    # Of 600 columns, 75 are a batch: some 11 with all, some 34 with one.
    high = sum(mean > 7.9 for mean in batches["means"])
    assert high == pytest.approx(8 * 75 * 0.15, abs=8)
    # What waits is drawn over the whole steady state.
    assert all(row["to"] - row["from"] > 3 for row in rows[1:])


def test_on_paper_everything_is_open_and_nothing_is_cut_off(
    browser: Browser, tmp_path: Path
) -> None:
    browser.open(written(tmp_path, crowd(tmp_path / "r.cutaway", workers=6)))
    browser.dark(True)
    assert browser.run("document.querySelectorAll('details:not([open])').length") > 3
    printed = browser.call("Page.printToPDF", printBackground=True)
    assert base64.b64decode(printed["data"]).startswith(b"%PDF")
    assert browser.run("document.querySelectorAll('details:not([open])').length") == 0
    try:
        browser.call("Emulation.setEmulatedMedia", media="print")
        ground = "getComputedStyle(document.body).backgroundColor"
        assert browser.run(ground) == "rgb(255, 255, 255)"
        held = browser.run(
            "[...document.querySelectorAll('.scroll')].filter((n) => n.scrollHeight > n.clientHeight + 1).length"
        )
        assert held == 0
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
        browser.dark(False)
