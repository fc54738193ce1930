"""Prints to the terminal: a Rich console that falls back to plain ASCII."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TextIO
from urllib.parse import quote

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table as Grid
from rich.text import Text

from .text import ascii_only, clean

LINKING_PROGRAMS = ("iTerm.app", "WezTerm", "vscode", "ghostty", "Hyper", "rio")
LINKING_TERMINALS = (
    "xterm-kitty",
    "alacritty",
    "foot",
    "wezterm",
    "xterm-ghostty",
    "contour",
)
LINKING_VARIABLES = {"KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION"}


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
        self.links = not self.plain and can_link(os.environ)
        if self.console.is_terminal:
            self.console.width = min(self.console.width, widest)
        else:
            self.console.width = 80

    def text(self, text: str, style: str = "") -> Text:
        """Text that is safe to print, in characters that the terminal can show."""
        text = clean(text)
        if self.plain:
            text = (
                ascii_only(text)
                .encode(self.encoding, "backslashreplace")
                .decode(self.encoding)
            )
        return Text(text, style=style)

    def link(self, shown: Text, file: str, line: int) -> None:
        """Make a place in the code clickable, in a terminal that can do that."""
        if self.links and Path(file).is_absolute():
            target = f"file://{platform.node()}{quote(file)}#{line}"
            shown.stylize(Style(link=target))

    def line(self, text: str, style: str = "") -> Text:
        """Text that is never wrapped: commands and paths that people copy."""
        out = self.text(text, style)
        out.no_wrap = True
        out.overflow = "ignore"
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


def can_link(environment: Mapping[str, str]) -> bool:
    """Whether a terminal is known to support links (OSC 8). Others would print the address, or nothing at all.

    >>> can_link({"TERM": "xterm-kitty"}), can_link({"TERM": "linux"}), can_link({"VTE_VERSION": "6800"})
    (True, False, True)
    """
    if (
        environment.get("TERM", "") == "dumb"
        or "TMUX" in environment
        or "STY" in environment
    ):
        return False
    if environment.get("TERM_PROGRAM", "") in LINKING_PROGRAMS:
        return True
    if environment.get("TERM", "").partition("-direct")[0] in LINKING_TERMINALS:
        return True
    version = environment.get("VTE_VERSION", "")
    newer = version.isdigit() and int(version) >= 5000
    return newer or bool(LINKING_VARIABLES & environment.keys())


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
