"""What the server answers with: text that is safe to print and not too long."""

from __future__ import annotations

from cutaway.reports.text import clean

MOST_TEXT = 24_000  # characters of an answer: what an agent can read


def clean_text(text: str) -> str:
    """Text of a bounded length, without anything that could steer a terminal.

    >>> clean_text("a\\x1b[1m\\nb")
    'a?[1m\\nb'
    """
    shown = "\n".join(clean(line) for line in text.splitlines())
    if len(shown) <= MOST_TEXT:
        return shown
    return shown[:MOST_TEXT] + "\n… cut here; ask for less, e.g. with LIMIT"
