"""Markup, pictures and tables: what a name holds stays text, and a picture looks the same in a page and in a file."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from cutaway.drawing import files
from cutaway.drawing.charts import Series, lines
from cutaway.drawing.markup import Markup, joined, paragraphs, tag
from cutaway.drawing.shell import document, policy
from cutaway.drawing.svg import Fluid, Picture
from cutaway.drawing.tables import Column, cell, meter, table

pytestmark = pytest.mark.core
HOSTILE = '"><script>alert(1)</script>'
SVG = "{http://www.w3.org/2000/svg}"


def test_text_stays_text_wherever_it_enters() -> None:
    picture = Picture(10, 10, HOSTILE)
    picture.text(0, 0, HOSTILE)
    picture.box(0, 0, 1, 1, "#000000", HOSTILE)
    fluid = Fluid(10, HOSTILE)
    fluid.box(0, 0, 1, 1, "#000000", HOSTILE, words=HOSTILE)
    drawn = joined(
        tag("p", HOSTILE, title=HOSTILE),
        paragraphs(HOSTILE),
        picture.markup(),
        fluid.markup(),
        table([Column(HOSTILE)], [[cell(HOSTILE, title=HOSTILE)]]),
    )
    page = document(HOSTILE, drawn)
    assert "<script" not in page
    # Nothing is lost, either: the same text is there as text.
    (words,) = re.findall("<p>(.*?)</p>", paragraphs(HOSTILE))
    assert words == "&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;"


def test_a_picture_in_a_file_brings_its_style_and_its_ground(tmp_path: Path) -> None:
    picture = Picture(200, 100, "two bars")
    picture.box(0, 10, 50, 90, "#4e79a7", "first")
    picture.line(0, 100, 200, 100)
    files.write(tmp_path / "bars.svg", picture)
    root = ET.parse(tmp_path / "bars.svg").getroot()
    assert root.attrib["viewBox"] == "0 0 200 100"
    ground, bar = root.findall(f"{SVG}rect")
    assert ground.attrib["fill"] == "#ffffff" and bar.findtext(f"{SVG}title") == "first"
    assert ".axis" in (root.findtext(f"{SVG}style") or "")
    # In a page the page's own style holds, for light and dark.
    assert "<style" not in picture.markup() and "#ffffff" not in picture.markup()


def test_both_ends_of_an_interval_lie_on_the_scale_of_its_axis() -> None:
    series = [Series("measured", [(1.0, 10.0, 8.0, 12.0), (4.0, 20.0, 20.0, 40.0)])]
    drawn = ET.fromstring(lines("actors", "steps/s", series).alone())
    stroked = [
        line.attrib for line in drawn.findall(f"{SVG}line") if "stroke" in line.attrib
    ]
    heights = [float(line["y1"]) - float(line["y2"]) for line in stroked]
    # The first interval is 4 high, the second 20, in one scale.
    assert heights[1] == pytest.approx(5 * heights[0], rel=1e-2)


def test_a_fluid_picture_measures_its_width_in_shares() -> None:
    picture = Fluid(24, "a bar")
    picture.box(0.25, 0, 0.5, 24, "#4e79a7")
    picture.curve(0, 20, [(0.0, 0.0), (1.0, 1.0)], "ink")
    root = ET.fromstring(picture.markup())
    (box,) = root.findall("rect")
    assert (box.attrib["x"], box.attrib["width"]) == ("25%", "50%")
    (inside,) = root.findall("svg")
    (curve,) = inside.findall("polyline")
    assert curve.attrib["points"] == "0.0,1000.0 1000.0,0.0"


def test_a_long_table_can_be_reached_and_scrolled_with_the_keyboard() -> None:
    rows = [[cell(str(i)), meter(i / 20, "#4e79a7")] for i in range(20)]
    columns = [Column("line"), Column("")]
    assert 'tabindex="0"' in table(columns, rows)
    short = table(columns, rows[:3])
    assert "tabindex" not in short
    assert short.count('scope="col"') == 2 and short.count("<tr>") == 4


def test_a_page_without_a_script_allows_none() -> None:
    page = document("a page", Markup("<p>text</p>"))
    assert "script-src 'none'" in page and "<script" not in page
    with_script = document("a page", Markup(""), "run();", {"a": "</script>"})
    assert policy("run();") in with_script
    assert with_script.count("</script>") == 2
