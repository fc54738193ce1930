"""The page of `cutaway what-if`: what each change would gain, or what each operation, line and process is worth."""

from __future__ import annotations

from collections.abc import Sequence

from cutaway.analysis.whatif.predict import Prediction, WhatIf, Worth
from cutaway.analysis.whatif.times import lasting
from cutaway.drawing.charts import Series, lines
from cutaway.drawing.colours import COLOURS, USED
from cutaway.drawing.markup import Markup, joined, paragraphs, tag
from cutaway.drawing.shell import document
from cutaway.drawing.tables import Column, cell, meter, table

from . import whatif
from .page.cells import number

ALIKE = 0.98
"""Of a curve, the first point that comes so close to the best one is named."""


def page(known: WhatIf, found: Sequence[Prediction], worth: Sequence[Worth]) -> str:
    """The whole file."""
    name = known.run.trace.path.name
    title = f"Cutaway: what if? {name}"
    said = tag("section", paragraphs(*filter(None, whatif.head(known))))
    if found:
        shown = _predicted(found)
    else:
        shown = _worth(known, worth)
    return document(title, joined(tag("h1", title), shown, said))


def _predicted(found: Sequence[Prediction]) -> Markup:
    """The first sentence says the gain; a curve is drawn as well."""
    parts = []
    points = _points(found)
    if len(points) > 1:
        unit = found[0].change.split()[-1].partition("=")[0]
        most = max(one.speedup for one in found)
        best = next(one for one in found if one.speedup >= ALIKE * most)
        first = f"{best.change}: {whatif.times(best.speedup)} times as fast"
        parts.append(_said(first, whatif.knee(found)))
        drawn = lines(unit, "times as fast", [Series("", points)])
        parts.append(tag("section", drawn.markup()))
    else:
        (one,) = found
        between = f"9 of 10 should lie between {whatif.times(one.least)} and {whatif.times(one.most)}"
        first = f"{one.change}: {whatif.times(one.speedup)} times as fast"
        parts.append(_said(first, between))
    heads = [
        Column("change"),
        Column("times as fast", "n"),
        Column("9 of 10 lie within", "n"),
        Column("an iteration takes", "n"),
        Column("now", "n"),
    ]
    parts.append(table(heads, [_prediction(one) for one in found]))
    assumed: dict[str, None] = {}
    for one in found:
        assumed.update(dict.fromkeys(one.assumes))
    parts.append(tag("h2", "What that rests on"))
    parts.append(paragraphs(whatif.interval(found), *assumed))
    return joined(*parts)


def _points(found: Sequence[Prediction]) -> list[tuple[float, float, float, float]]:
    """Of a curve: the number that was changed, and the gain with its interval."""
    if len(found) < 2:
        return []
    points = []
    for one in found:
        count = one.change.rpartition("=")[2]
        points.append((float(count), one.speedup, one.least, one.most))
    return points


def _said(*sentences: str) -> Markup:
    first, *more = sentences
    largest = tag("p", first, class_="said")
    return tag("section", largest, paragraphs(*more), class_="verdict")


def _prediction(one: Prediction) -> list[Markup]:
    span = f"{whatif.times(one.least)} to {whatif.times(one.most)}"
    return [
        cell(one.change, "op", one.change),
        number(whatif.times(one.speedup)),
        number(span),
        number(lasting(one.after)),
        number(lasting(one.before)),
    ]


def _worth(known: WhatIf, worth: Sequence[Worth]) -> Markup:
    shown = [row for row in worth if not whatif.is_all(row)]
    most = max((row.elasticity for row in shown), default=0.0) or 1.0
    known.require()
    heads = [
        Column("what"),
        Column("name"),
        Column("", "bar"),
        Column("if it gets 10 % faster", "n"),
        Column("if it took no time", "n"),
    ]
    rows = [_worth_row(row, most) for row in shown]
    why = (
        "Below: what the whole gains if one of them gets 10 % faster, or takes no time. Work that others wait for has weight; "
        "work beside the critical path has none."
    )
    return joined(_said(*_first(shown), why), table(heads, rows))


def _first(shown: Sequence[Worth]) -> list[str]:
    """What is worth most; empty if nothing is recorded that can get faster."""
    best = whatif.best(shown)
    if best is None:
        return []
    gain = 10 * best.elasticity
    return [f"{best.name} is worth most: 10 % faster, the whole gains {gain:.1f} %"]


def _colour(row: Worth) -> str:
    """That of an operation; all else is grey."""
    if row.kind == "operation":
        return COLOURS.get(row.name, USED)
    return USED


def _worth_row(row: Worth, most: float) -> list[Markup]:
    return [
        cell(row.kind),
        cell(row.name, "op", row.name),
        meter(max(0.0, row.elasticity / most), _colour(row)),
        number(f"{10 * row.elasticity:.1f} %"),
        number(f"{whatif.times(row.free)} times as fast"),
    ]
