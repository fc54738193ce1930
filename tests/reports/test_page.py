"""The page in a real browser: draws itself, obeys, makes no request, and no name can become markup."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.browser import Browser

from cutaway.commands import main
from cutaway.reports.digests import open_run
from cutaway.reports.page.data import build_page, page_data
from cutaway.trace.files import write_private
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind
from cutaway_balance import page as grid_page
from cutaway_balance.grid import Row

from .runs import MS, START, begin, crowd, single, with_device

HOSTILE = '</script><img src="http://evil.example/x" onerror="window.hacked=1"><!--<script>@DATA@'


@pytest.fixture(scope="module")
def shown(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("page")
    file = folder / "report.html"
    file.write_text(
        build_page(crowd(folder / "r.cutaway", workers=6, iterations=60)),
        encoding="utf-8",
    )
    opened(browser, file)
    yield browser


def opened(browser: Browser, file: Path) -> None:
    """Open a page, and everything folded in it."""
    browser.open(file)
    browser.run("document.querySelector('nav button')?.click()")
    browser.wait("document.documentElement.dataset.ready === 'yes'")
    browser.settle()


def text(browser: Browser, selector: str) -> str:
    return str(browser.run(f"document.querySelector({json.dumps(selector)}).innerText"))


def visible_range(browser: Browser) -> tuple[float, float]:
    """The stretch of time the lanes show, in seconds."""
    found = re.findall(r"([\d.]+) (s|ms|µs)", text(browser, "#lanes-range"))
    scale = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
    return tuple(float(value) * scale[unit] for value, unit in found[:2])  # type: ignore[return-value]


def colours(browser: Browser) -> set[str]:
    """Distinct colours on the canvas of the lanes."""
    return set(
        browser.run(
            """(() => { const from = document.querySelector(".lanes canvas"), copy = document.createElement("canvas");
            copy.width = from.width; copy.height = from.height;
            const pen = copy.getContext("2d", { willReadFrequently: true });
            pen.drawImage(from, 0, 0);
            const d = pen.getImageData(141, 0, copy.width - 141, copy.height).data, seen = new Set();
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen.add([d[i], d[i + 1], d[i + 2]].join());
            return [...seen]; })()"""
        )
    )


def test_the_waits_of_the_main_process_come_first_and_siblings_are_one(tmp_path: Path):
    # Given a learner whose three workers wait longer than it does.
    run = open_run(crowd(tmp_path / "r.cutaway", workers=3))
    rows = page_data(run)["sections"]["waits"]["rows"]
    assert [row["who"] for row in rows] == ["learner", "3 × actor"]
    assert rows[0]["whom"] == "3 × actor"
    assert rows[0]["ms"] < rows[1]["ms"]
    # Each worker waits for six of every ten milliseconds.
    assert rows[1]["share"] == pytest.approx(0.6, abs=0.03)


def test_the_run_over_time_has_a_line_and_the_shares(shown: Browser):
    drawn = shown.run(
        "['polyline', 'rect'].map((tag) => document.querySelectorAll(`#time svg ${tag}`).length)"
    )
    assert drawn[0] == 1 and drawn[1] > 20


def test_every_part_is_there(shown: Browser):
    parts = shown.run(
        "[...document.querySelectorAll('section, details')].map((node) => node.id)"
    )
    assert parts == [
        "verdict",
        "lanes",
        "change",
        "tiles",
        "bars",
        "time",
        "flame",
        "lines",
        "waits",
        "transitions",
        "operators",
        "callsites",
        "tree",
    ]
    assert "SIMULATION-BOUND" in text(shown, "#verdict") and "estimate:" in text(
        shown, "#change"
    )
    assert (
        "simulation" in text(shown, "#bars")
        or shown.run("document.querySelectorAll('#bars rect').length") > 3
    )
    assert "6 × actor" in text(shown, "#waits")
    assert shown.run("document.querySelectorAll('#tree canvas').length") == 7
    assert "lost of" in text(shown, "footer")


def test_lanes_are_drawn_in_the_colours_of_operations_and_layers(shown: Browser):
    shown.settle()
    # Simulation, inference, backpropagation.
    assert {"78,121,167", "242,142,43", "89,161,79"} <= colours(shown)
    shown.run("document.querySelector('[data-value=layer]').click()")
    shown.settle()
    assert "237,201,72" in colours(shown)  # Python
    shown.run("document.querySelector('[data-value=operation]').click()")


def test_the_flame_graph_zooms_finds_and_parts_processes(shown: Browser):
    boxes = "[...document.querySelectorAll('#flame rect')].length"
    whole = shown.run(boxes)
    shown.run("document.querySelector('.flame').focus()")
    shown.key("ArrowDown")  # the widest operation of all processes together
    shown.key("Enter")
    assert text(shown, "#flame-where").startswith("(waiting): ")
    assert shown.run(boxes) < whole
    shown.key("Escape")
    assert text(shown, "#flame-where").startswith("everything: ")
    assert shown.run(boxes) == whole
    shown.run(
        "{ const s = document.querySelector('#flame input'); s.value = 'sim.step'; s.dispatchEvent(new Event('input')); }"
    )
    assert '"sim.step" is in ' in text(shown, "#flame-where")
    shown.run("document.querySelector('#flame [data-value=each]').click()")
    first_row = shown.run(
        "[...document.querySelectorAll('#flame g.process text')].map((n) => n.textContent)"
    )
    assert len(first_row) == 7, "the learner and its six actors"


def test_the_flame_graph_turned_over_adds_up_to_the_same(shown: Browser):
    shown.run(
        "{ const s = document.querySelector('#flame input'); s.value = ''; s.dispatchEvent(new Event('input')); }"
    )
    shown.run("document.querySelector('#flame [data-value=all]').click()")
    whole = text(shown, "#flame-where")
    shown.run("document.querySelector('#flame [data-value=up]').click()")
    assert text(shown, "#flame-where") == whole
    rows = "[...document.querySelectorAll('#flame rect')].map((n) => [+n.getAttribute('y'), +n.getAttribute('width')])"
    second = [width for y, width in shown.run(rows) if 0 < y < 20]
    width = shown.run("document.querySelector('#flame svg').viewBox.baseVal.width")
    assert sum(second) == pytest.approx(width, abs=2 * len(second))
    # What does the work stands on top, its callers below it.
    tops = shown.run(
        "[...document.querySelectorAll('#flame g.native rect')].map((n) => +n.getAttribute('y'))"
    )
    assert min(tops) < 20
    shown.run("document.querySelector('#flame [data-value=down]').click()")
    assert shown.problems == []


def test_the_strip_above_the_lanes_moves_the_view(shown: Browser):
    shown.run("document.querySelector('.lanes').focus()")
    shown.key("0")
    for _ in range(3):
        shown.key("+")
    before = visible_range(shown)
    shown.run(
        "document.querySelector('canvas.map').scrollIntoView({ block: 'center' })"
    )
    x, y, width = shown.run("(() => { const r = document.querySelector('canvas.map').getBoundingClientRect();"
                            " return [r.left, r.top, r.width]; })()")  # fmt: skip
    shown.mouse("mousePressed", x + 0.9 * width, y + 9)
    shown.mouse("mouseReleased", x + 0.9 * width, y + 9)
    shown.settle()
    after = visible_range(shown)
    assert after[0] > before[1]
    assert after[1] - after[0] == pytest.approx(before[1] - before[0], rel=0.02)
    painted = shown.run(
        "(() => { const c = document.querySelector('canvas.map'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        " const seen = new Set(); for (let i = 0; i < d.length; i += 4) seen.add([d[i], d[i + 1], d[i + 2]].join()); return seen.size; })()"
    )
    assert painted > 3


def test_without_a_script_the_answers_are_there(tmp_path: Path):
    page = build_page(crowd(tmp_path / "r.cutaway", workers=3))
    read = re.sub("<[^>]+>", " ", page.split("<body>")[1].split('<script type="')[0])
    for said in ("SIMULATION-BOUND", "estimate: ", "3 × actor", "Everything else"):
        assert said in read
    assert "this picture needs JavaScript" in read


def test_the_keyboard_zooms_and_moves(shown: Browser):
    shown.run("document.querySelector('.lanes').focus()")
    shown.key("0")
    whole = visible_range(shown)
    shown.key("+")
    inner = visible_range(shown)
    assert inner[1] - inner[0] == pytest.approx((whole[1] - whole[0]) / 2, rel=0.02)
    shown.key("ArrowRight")
    assert visible_range(shown)[0] > inner[0]
    shown.key("ArrowLeft")
    shown.key("-")
    assert visible_range(shown) == pytest.approx(whole, abs=0.02)


def test_dragging_zooms_into_what_was_dragged_over(shown: Browser):
    shown.run("document.querySelector('.lanes').focus()")
    shown.key("0")
    whole = visible_range(shown)
    x, y, width = shown.run("(() => { const r = document.querySelector('.lanes canvas').getBoundingClientRect();"
                            " return [r.left, r.top, r.width]; })()")  # fmt: skip
    lane = width - 140
    shown.drag((x + 140 + lane * 0.25, y + 50), (x + 140 + lane * 0.5, y + 50))
    zoomed = visible_range(shown)
    length = whole[1] - whole[0]
    assert zoomed == pytest.approx(
        (whole[0] + length * 0.25, whole[0] + length * 0.5), abs=0.03 * length
    )


def test_pointing_explains(shown: Browser):
    x, y = shown.run("(() => { const r = document.querySelector('.lanes canvas').getBoundingClientRect();"
                     " return [r.left + 400, r.top + 24 + 30]; })()")  # fmt: skip
    shown.mouse("mouseMoved", x, y)
    assert "env-00 at" in text(shown, ".tip")


def test_a_table_is_sorted_by_the_column_that_is_pressed(shown: Browser):
    shown.run("document.querySelector('#operators').open = true")
    column = "(n) => [...document.querySelectorAll(`#operators tbody td:nth-child(${n})`)].map((c) => c.textContent)"
    press = (
        "(n) => document.querySelector(`#operators th:nth-child(${n}) button`).click()"
    )
    order = "(n) => document.querySelector(`#operators th:nth-child(${n})`).ariaSort"
    names = shown.run(f"({column})(1)")
    calls = [int(count.replace(",", "")) for count in shown.run(f"({column})(6)")]
    assert len(names) >= 3
    shown.run(f"({press})(1)")
    assert shown.run(f"({column})(1)") == sorted(names)
    assert shown.run(f"({order})(1)") == "ascending"
    shown.run(f"({press})(6)")
    found = [int(count.replace(",", "")) for count in shown.run(f"({column})(6)")]
    assert found == sorted(calls, reverse=True)
    assert shown.run(f"({order})(6)") == "descending"
    shown.run(f"({press})(6)")
    found = [int(count.replace(",", "")) for count in shown.run(f"({column})(6)")]
    assert found == sorted(calls) and not shown.run(f"({order})(1)")


def test_bars_turn_to_resources(shown: Browser):
    shown.run("document.querySelector('[data-value=resources]').click()")
    in_sight = "#bars [data-view]:not([hidden]) .legend"
    said = text(shown, in_sight)
    assert "CPU only" in said and "neither" in said
    shown.run("document.querySelector('[data-value=layers]').click()")
    assert "wait" in text(shown, in_sight)
    assert (
        shown.run("document.querySelectorAll('#bars [data-view][hidden]').length") == 1
    )


def test_dark_and_light(shown: Browser):
    shown.dark(True)
    assert (
        shown.run("getComputedStyle(document.body).backgroundColor")
        == "rgb(21, 24, 28)"
    )
    shown.dark(False)
    assert (
        shown.run("getComputedStyle(document.body).backgroundColor")
        == "rgb(255, 255, 255)"
    )


def test_every_control_is_reached_by_tab(shown: Browser):
    shown.run("document.activeElement.blur()")
    reached = set()
    for _ in range(120):
        shown.key("Tab")
        reached.add(
            shown.run(
                "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
            )
        )
    assert {
        "by layer",
        "CPU / GPU / both",
        "zoom in",
        "zoom out",
        "show the whole run",
    } <= reached
    assert any(str(name).startswith("Time lanes") for name in reached)


def test_nothing_was_asked_of_a_network_and_nothing_complained(shown: Browser):
    assert shown.problems == []
    assert [url for url in shown.requests if not url.startswith("file:")] == [] and len(
        shown.requests
    ) == 1


def shares(browser: Browser) -> dict[str, int]:
    """What the sentence below the lanes says of the stretch in view."""
    browser.run("new Promise((done) => setTimeout(done, 300))")
    said = text(browser, "#lanes-shares")
    return {name: int(share) for share, name in re.findall(r"(\d+) % ([^,.]+)", said)}


def test_below_the_lanes_stands_what_is_in_view(browser: Browser, tmp_path: Path):
    # Given one process of 100 ms an iteration: simulation 60, inference 15, backpropagation 20, nothing 5.
    file = tmp_path / "r.html"
    file.write_text(build_page(single(tmp_path / "r.cutaway")), encoding="utf-8")
    opened(browser, file)
    browser.run("document.querySelector('.lanes').focus()")
    browser.key("0")
    whole = shares(browser)
    expected = {"simulation": 60, "backpropagation": 20, "inference": 15, "(none)": 5}
    assert whole.keys() == expected.keys()
    assert all(abs(whole[name] - share) <= 1 for name, share in expected.items())
    # When as much is in view as one operation takes.
    for _ in range(6):
        browser.key("w")
    inner = shares(browser)
    assert sum(inner.values()) == pytest.approx(100, abs=2) and inner != whole
    browser.run("document.querySelector('#lanes [data-value=layer]').click()")
    assert {"Python", "simulator"} & shares(browser).keys()
    assert browser.problems == []


def test_a_device_has_its_lane_its_bar_and_its_strip(browser: Browser, tmp_path: Path):
    file = tmp_path / "d.html"
    file.write_text(build_page(with_device(tmp_path / "d.cutaway")), encoding="utf-8")
    opened(browser, file)
    assert "GPU 0" in text(browser, "#tree")
    assert "GPU kernel (thin line)" in text(browser, "#bars .legend")
    assert "20 %" in text(browser, "#tiles") and "nvidia-smi: 100 %" in text(
        browser, "#tiles"
    )
    assert browser.problems == []


def test_kernels_stand_below_the_call_that_launched_them(
    browser: Browser, tmp_path: Path
):
    file = tmp_path / "d.html"
    file.write_text(build_page(with_device(tmp_path / "d.cutaway")), encoding="utf-8")
    opened(browser, file)
    names = "(selector) => [...document.querySelectorAll(selector)].map((node) => node.textContent)"
    assert len(browser.run(f"({names})('#flame g.kernel')")) == 1
    browser.run("document.querySelector('#flame [data-value=device]').click()")
    assert browser.run(f"({names})('#flame g.operation text')") == ["backpropagation"]
    assert browser.run(f"({names})('#flame g.kernel text')") == ["sgemm"]
    browser.run(
        "document.querySelector('#flame g.kernel rect').dispatchEvent(new MouseEvent('click'))"
    )
    assert "backpropagation › cudaLaunchKernel › sgemm: 380 ms on the device" in text(
        browser, "#flame-where"
    )


def test_the_page_of_a_diff_shows_what_grew_and_what_shrank(
    browser: Browser, tmp_path: Path
):
    # Given two runs: in the second one the operation "simulation" is called "search".
    a, b = (
        single(tmp_path / "a.cutaway"),
        single(tmp_path / "b.cutaway", operation="search"),
    )
    assert main(["diff", str(a), str(b), "-o", str(tmp_path / "diff.html")]) == 0
    opened(browser, tmp_path / "diff.html")
    colour = "(name) => { const g = [...document.querySelectorAll('#flame g.operation')].find((n) => n.textContent === name);" \
        " return g.querySelector('rect').getAttribute('fill'); }"  # fmt: skip
    variable = "(name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim()"
    assert browser.run(f"({colour})('search')") == browser.run(
        f"({variable})('--grew')"
    )
    assert browser.run(f"({colour})('simulation')") == browser.run(
        f"({variable})('--shrank')"
    )
    changed = text(browser, "table tbody")
    assert "+60.0 ms" in changed or "+40.0 ms" in changed
    assert "backpropagation" not in changed  # it takes as long in both
    browser.run("document.querySelector('.flame').focus()")
    browser.key("ArrowDown")
    assert "60.0 ms → 0" in text(browser, "#flame-where") or "0 µs → 60.0 ms" in text(
        browser, "#flame-where"
    )
    assert browser.problems == []


def test_what_is_folded_is_drawn_when_a_link_leads_there(
    browser: Browser, tmp_path: Path
):
    # Given a run bound by one operation: the bars prove it, the rest is folded and not drawn.
    file = tmp_path / "r.html"
    file.write_text(build_page(single(tmp_path / "r.cutaway")), encoding="utf-8")
    browser.open(file)
    state = "[...document.querySelectorAll('details')].map((n) => [n.id, n.open, !n.querySelector('[data-draw]')])"
    scripted = {"lanes", "flame", "tree"}
    assert browser.run("document.querySelector('.proof').id") == "bars"
    for name, shown, drawn in browser.run(state):
        assert not shown and drawn == (name not in scripted)
    browser.run("document.querySelector('#verdict a').click()")
    browser.settle()
    assert [name for name, shown, _ in browser.run(state) if shown] == ["callsites"]
    browser.run("location.hash = '#flame'")
    browser.wait("document.querySelectorAll('#flame rect').length > 3")
    # When it is printed, everything is there.
    browser.run("window.dispatchEvent(new Event('beforeprint'))")
    assert all(shown and drawn for _, shown, drawn in browser.run(state))
    assert browser.problems == []


PHONE, DESK = (390, 844), (1280, 900)


def overflow(browser: Browser) -> int:
    """By how many pixels the page is wider than the screen."""
    return int(browser.run("document.documentElement.scrollWidth - window.innerWidth"))


def test_pages_fit_on_a_phone(browser: Browser, tmp_path: Path):
    a, b = (
        str(single(tmp_path / "a.cutaway")),
        str(single(tmp_path / "b.cutaway", operation="search")),
    )
    assert main(["diff", a, b, "-o", str(tmp_path / "diff.html")]) == 0
    assert (
        main(["compare", a, b, "--explain", a, b, "-o", str(tmp_path / "compare.html")])
        == 0
    )
    write_private(tmp_path / "grid.html", grid_page.page("train.py", grid_rows(), []))
    assert main(["report", a, "-o", str(tmp_path / "report.html")]) == 0
    try:
        browser.size(*PHONE)
        for name in ("diff", "compare", "report", "grid"):
            if name == "grid":  # a page without a script does not say that it is ready
                browser.call("Page.navigate", url=(tmp_path / "grid.html").as_uri())
                browser.wait(
                    "document.title === 'Cutaway balance' && document.readyState === 'complete'"
                )
            else:
                opened(browser, tmp_path / f"{name}.html")
            assert browser.run(
                "document.querySelector('meta[name=viewport]') !== null"
            ), name
            assert overflow(browser) <= 0, name
    finally:
        browser.size(*DESK)


def grid_rows() -> list[Row]:
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
        Row(actors, None, None, rate, 0.9 * rate, 1.1 * rate, **rest)
        for actors, rate in rates.items()
    ]  # type: ignore[arg-type]


def test_long_source_lines_leave_the_columns_in_sight(browser: Browser, tmp_path: Path):
    code = tmp_path / "train.py"
    long = "x = " + " + ".join(f"some_name_{i}" for i in range(40))
    code.write_text("\n".join([long] * 90))
    run = single(tmp_path / "r.cutaway", file=str(code))
    (tmp_path / "r.html").write_text(build_page(run, source=True), encoding="utf-8")
    for size in (DESK, (900, 900)):
        browser.size(*size)
        opened(browser, tmp_path / "r.html")
        assert "some_name_3" in text(browser, "#callsites .source")
        right = "(n) => n.getBoundingClientRect().right"
        last = browser.run(
            f"Math.max(...[...document.querySelectorAll('#callsites td.n')].map({right}))"
        )
        assert (
            last
            <= browser.run(f"({right})(document.querySelector('#callsites .scroll'))")
            + 1
        )
    browser.size(*DESK)


def test_a_run_without_a_pace_has_no_axis_for_it(browser: Browser, tmp_path: Path):
    with RunWriter(tmp_path / "r.cutaway") as run:
        process, thread = begin(run, 100, "main", "")
        name = process.name("plan")
        times = [START + i * 100 * MS for i in range(80)]
        kinds = [Kind.BEGIN, *[Kind.OP_ENTER, Kind.OP_EXIT] * 39, Kind.END]
        thread.write(times, 0, kinds, [0, *[name] * 78, 0])
        process.exit(t=times[-1], code=0)
    (tmp_path / "r.html").write_text(
        build_page(tmp_path / "r.cutaway"), encoding="utf-8"
    )
    opened(browser, tmp_path / "r.html")
    browser.wait("document.querySelector('#time') !== null")
    assert (
        "e-" not in text(browser, "#time")
        and browser.run("document.querySelector('#time polyline')") is None
    )
    assert browser.problems == []


def test_a_name_cannot_become_markup(browser: Browser, tmp_path: Path):
    file = tmp_path / "hostile.html"
    html = build_page(single(tmp_path / "h.cutaway", name=HOSTILE, operation=HOSTILE))
    file.write_text(html, encoding="utf-8")
    opened(browser, file)
    assert browser.run("window.hacked") is None
    assert browser.run("document.images.length") == 0
    assert browser.requests == [file.as_uri()] and browser.problems == []
    assert HOSTILE[:30] in browser.run("document.body.textContent")
    assert html.count("</script>") == 2


def test_the_policy_stops_what_is_not_ours(browser: Browser, tmp_path: Path):
    file = tmp_path / "p.html"
    html = build_page(single(tmp_path / "p.cutaway"))
    file.write_text(
        html.replace("</body>", "<script>window.foreign = 1</script></body>"),
        encoding="utf-8",
    )
    opened(browser, file)
    assert browser.run("window.foreign") is None
    assert any("Content Security Policy" in problem for problem in browser.problems)


def test_the_command_writes_beside_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = single(tmp_path / "r.cutaway")
    assert main(["report", str(path)]) == 0
    assert (
        (tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    )
    assert "no network needed" in capsys.readouterr().out
    assert main(["report", str(path), "-o", str(tmp_path / "other.html")]) == 0
    assert (tmp_path / "other.html").is_file()
    assert (
        main(["report", str(path), "-o", str(tmp_path / "no" / "such" / "folder.html")])
        == 1
    )
    assert capsys.readouterr().err.startswith("cutaway: ")


def test_source_lines_only_when_asked(tmp_path: Path):
    script = tmp_path / "train.py"
    script.write_text("\n" * 69 + "    obs = env.step(secret_plan)\n")
    path = single(tmp_path / "s.cutaway", file=str(script))
    assert "secret_plan" not in build_page(path)
    assert "secret_plan" in build_page(path, source=True)


def test_five_hundred_processes_stay_small(browser: Browser, tmp_path: Path):
    html = build_page(crowd(tmp_path / "many.cutaway", workers=499, iterations=20))
    assert len(html.encode()) < 1_000_000
    file = tmp_path / "many.html"
    file.write_text(html, encoding="utf-8")
    opened(browser, file)
    assert "500 rows" in text(browser, "#lanes-range")
    assert browser.problems == []
