"""How text leaves the house: a Rich console that falls back to plain ASCII, and one colour for each operation."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Literal, TextIO

from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from cutaway.vocabulary import OPERATIONS

from .text import ascii_only, clean

COLOURS = {name: colour for name, (colour, *_) in OPERATIONS.items()} | {"": "#8a8a8a"}
MORE_COLOURS = (
    "#e15759", "#ff9da7", "#86bcb6", "#d4a6c8", "#a0cbe8", "#bab0ac", "#8cd17d", "#d37295", "#499894", "#b6992d", "#fabfd2",
    "#79706e", "#d7b5a6", "#2f6690",
)  # fmt: skip


class Printer:
    """A Rich console that falls back to plain ASCII; all text goes through `text`."""

    def __init__(self, file: TextIO, widest: int = 110) -> None:
        self.console = Console(
            file=file, highlight=False, markup=False, emoji=False, soft_wrap=False
        )
        self.encoding = (
            (getattr(file, "encoding", None) or "ascii").lower().replace("-", "")
        )
        self.plain = not self.console.is_terminal or not self.encoding.startswith("utf")
        self.console.width = (
            min(self.console.width, widest) if self.console.is_terminal else 80
        )

    def text(self, text: str, style: str = "") -> Text:
        """Safe text in our alphabet."""
        text = clean(text)
        if self.plain:
            text = (
                ascii_only(text)
                .encode(self.encoding, "backslashreplace")
                .decode(self.encoding)
            )
        return Text(text, style=style)

    def line(self, text: str, style: str = "") -> Text:
        """Text that is never broken: commands and paths people copy."""
        out = self.text(text, style)
        out.no_wrap, out.overflow = True, "ignore"
        return out

    def print(self, *items: RenderableType) -> None:
        """Print and leave no blanks at line ends."""
        if self.console.is_terminal:
            self.console.print(Group(*items), crop=False)
            return
        with self.console.capture() as captured:
            self.console.print(Group(*items), crop=False)
        self.console.file.write(
            "\n".join(line.rstrip() for line in captured.get().split("\n"))
        )


def colour(name: str, names: list[str]) -> str:
    """One colour for each operation, the same in every report."""
    if name in COLOURS:
        return COLOURS[name]
    others = [n for n in names if n not in COLOURS]
    return MORE_COLOURS[others.index(name) % len(MORE_COLOURS)]


def grid(
    p: Printer, titles: Sequence[str], left: Sequence[str], widths: Sequence[int] = ()
) -> Grid:
    """An airy table; its columns stand to the right but for those named in `left`. Columns with a width keep it: a table that
    does not fit is better than a number without its last digits."""
    table = Grid(
        box=None,
        padding=(0, 1, 0, 0),
        pad_edge=False,
        header_style="bold",
        expand=False,
    )
    cut: Literal["crop", "ellipsis"] = "crop" if p.plain else "ellipsis"
    for title, width in zip_longest(titles, widths):
        side: Literal["left", "right"] = "left" if title in left else "right"
        table.add_column(
            p.text(title), justify=side, no_wrap=True, overflow=cut, min_width=width
        )
    return table
