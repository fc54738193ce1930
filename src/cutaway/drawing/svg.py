"""Pictures made of plain shapes, as SVG: in a page they follow its colours, in a file of their own they bring them along.

`Picture` has a fixed size and is scaled as a whole. `Fluid` is as wide as there is room: its x run from 0 to 1, and text keeps its size.
"""

from __future__ import annotations

from collections.abc import Sequence

from .markup import Child, Markup, Value, joined, tag

NAMESPACE = "http://www.w3.org/2000/svg"
ALONE = (
    "text{font:11.5px system-ui,DejaVu Sans,sans-serif;fill:#1a1d21}.soft{fill:#667085}"
    ".axis{stroke:#d3d7dd}.mark{stroke:#8a1c1c}.ideal{stroke:#1a1d21}"
)
"""The style of a picture in a file of its own; in a page shell.css says the same, for light and dark."""
Points = Sequence[tuple[float, float]]


class Picture:
    """Shapes on a ground of this size."""

    def __init__(self, width: float, height: float, label: str) -> None:
        self.width = width
        self.height = height
        self.label = label
        self.shapes: list[Markup] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str | None = None,
        kind: str | None = None,
        fill: str | None = None,
    ) -> None:
        """Words that begin, end or have their middle at x."""
        shape = tag("text", words, x=x, y=y, text_anchor=anchor, class_=kind, fill=fill)
        self.shapes.append(shape)

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        title: str = "",
        strength: float = 1.0,
    ) -> None:
        """A filled box; pointing at it shows its title."""
        size = {"x": x, "y": y, "width": width, "height": height}
        opacity = _opacity(strength)
        shape = tag("rect", *titled(title), **size, fill=fill, fill_opacity=opacity)
        self.shapes.append(shape)

    def line(
        self,
        x1: float,
        y1: float,
        x2: float,
        y2: float,
        kind: str | None = "axis",
        stroke: str | None = None,
        dashed: bool = False,
    ) -> None:
        """A thin line, coloured by its kind or by hand."""
        dash = "3 2" if dashed else None
        kind = None if stroke else kind
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        shape = tag("line", **ends, class_=kind, stroke=stroke, stroke_dasharray=dash)
        self.shapes.append(shape)

    def path(self, points: Points, stroke: str) -> None:
        """A line through points."""
        self.shapes.append(_through(points, stroke, None))

    def dot(self, x: float, y: float, fill: str, title: str = "") -> None:
        """A point of a chart."""
        self.shapes.append(tag("circle", *titled(title), cx=x, cy=y, r=3, fill=fill))

    def add(self, shape: Markup) -> None:
        """Anything else."""
        self.shapes.append(shape)

    def legend(self, x: float, y: float, rows: Sequence[tuple[str, str]]) -> None:
        """Colours and what they stand for, below each other."""
        for at, (fill, words) in enumerate(rows):
            self.box(x, y + 17 * at, 11, 11, fill)
            self.text(x + 17, y + 17 * at + 10, words)

    def markup(self) -> Markup:
        """For a page."""
        return self._svg(*self.shapes)

    def alone(self) -> str:
        """For a file: on white, with a style of its own."""
        ground = tag("rect", width=self.width, height=self.height, fill="#ffffff")
        style = tag("style", Markup(ALONE))
        return self._svg(style, ground, *self.shapes, xmlns=NAMESPACE)

    def _svg(self, *inside: Child, xmlns: str | None = None) -> Markup:
        around = f"0 0 {self.width:.0f} {self.height:.0f}"
        size: dict[str, Value] = {
            "viewBox": around,
            "width": self.width,
            "height": self.height,
        }
        return tag(
            "svg", *inside, xmlns=xmlns, **size, role="img", aria_label=self.label
        )


class Fluid:
    """Shapes on a ground that is as wide as there is room. x and widths are shares of it, y are pixels."""

    def __init__(self, height: float, label: str) -> None:
        self.height = height
        self.label = label
        self.shapes: list[Markup] = []

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        fill: str,
        title: str = "",
        strength: float = 1.0,
        words: str = "",
    ) -> None:
        """A filled box; words in it are cut off where it ends."""
        where: dict[str, Value] = {
            "x": share(x),
            "y": y,
            "width": share(width),
            "height": height,
        }
        opacity = _opacity(strength)
        own = _filling(fill)
        if not words:
            shape = tag("rect", *titled(title), **where, **own, fill_opacity=opacity)
            self.shapes.append(shape)
            return
        ground = tag(
            "rect",
            *titled(title),
            width="100%",
            height="100%",
            **own,
            fill_opacity=opacity,
        )
        if strength > 0.75:
            kind = "inside"
        else:
            kind = "within"
        said = tag("text", words, x=5, y=height / 2 + 4, class_=kind)
        self.shapes.append(tag("svg", ground, said, **where))

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str | None = None,
        kind: str | None = None,
    ) -> None:
        """Words that begin, end or have their middle at a share of the width."""
        shape = tag("text", words, x=share(x), y=y, text_anchor=anchor, class_=kind)
        self.shapes.append(shape)

    def rule(self, y: float, dashed: bool = False) -> None:
        """A line from side to side."""
        dash = "3 3" if dashed else None
        self.shapes.append(
            tag(
                "line",
                x1=0,
                x2="100%",
                y1=y,
                y2=y,
                class_="axis",
                stroke_dasharray=dash,
            )
        )

    def curve(self, y: float, height: float, points: Points, stroke: str) -> None:
        """A line; its points are shares of the width and of the height, which count from below."""
        self._stretched(
            y, height, _through(_scaled(points), stroke, "non-scaling-stroke")
        )

    def area(
        self, y: float, height: float, points: Points, fill: str, title: str = ""
    ) -> None:
        """What lies below a line."""
        shape = tag(
            "polygon", *titled(title), points=_listed(_scaled(points)), fill=fill
        )
        self._stretched(y, height, shape)

    def markup(self) -> Markup:
        """For a page."""
        size: dict[str, Value] = {"width": "100%", "height": self.height}
        return tag(
            "svg",
            *self.shapes,
            **size,
            class_="fluid",
            role="img",
            aria_label=self.label,
        )

    def _stretched(self, y: float, height: float, shape: Markup) -> None:
        size: dict[str, Value] = {"y": y, "width": "100%", "height": height}
        inside = tag(
            "svg", shape, **size, viewBox="0 0 1000 1000", preserveAspectRatio="none"
        )
        self.shapes.append(inside)


def share(of_one: float) -> str:
    """A share of the width.

    >>> share(0.5), share(1 / 3)
    ('50%', '33.333%')
    """
    return f"{100 * of_one:.3f}".rstrip("0").rstrip(".") + "%"


def _opacity(strength: float) -> float | None:
    """Nothing is written where a shape hides what is below it."""
    if strength == 1:
        return None
    return strength


def titled(title: str) -> list[Markup]:
    """What pointing at a shape shows."""
    if title:
        return [tag("title", title)]
    return []


def _filling(fill: str) -> dict[str, str]:
    """A colour, or the class of a colour that differs in the dark."""
    return {"fill": fill} if fill.startswith(("#", "url")) else {"class_": fill}


def _scaled(points: Points) -> Points:
    return [(1000 * x, 1000 * (1 - y)) for x, y in points]


def _listed(points: Points) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _through(points: Points, stroke: str, effect: str | None) -> Markup:
    own = {"stroke": stroke} if stroke.startswith("#") else {"class_": stroke}
    return tag(
        "polyline",
        points=_listed(points),
        fill="none",
        **own,
        stroke_width=2,
        vector_effect=effect,
    )


def swatch(fill: str, words: str, strength: float = 1.0) -> Markup:
    """An entry of a legend beside a picture."""
    if strength == 1:
        opacity = None
    else:
        opacity = strength
    own = _filling(fill)
    box = tag("rect", width=11, height=11, rx=2, **own, fill_opacity=opacity)
    drawn = tag("svg", box, class_="swatch", width=11, height=11, aria_hidden="true")
    return tag("span", drawn, words, class_="key")


def legend(entries: Sequence[Markup]) -> Markup:
    """Entries beside each other."""
    return tag("div", *(joined(one) for one in entries), class_="legend")
