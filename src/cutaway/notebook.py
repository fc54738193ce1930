"""`%load_ext cutaway`: the cell magic `%%cutaway` records a cell, and shows its verdict and its page below it."""

from __future__ import annotations

import html
import io
import time
from pathlib import Path
from typing import Any

import cutaway
from cutaway.errors import CutawayError

TALL = 700  # pixels of the page below a cell


def load(shell: Any) -> None:
    """Register the magic with an IPython shell."""

    def magic(line: str, cell: str) -> None:
        """%%cutaway [NAME.cutaway]: record this cell."""
        record_cell(shell, line.strip(), cell)

    shell.register_magic_function(magic, "cell", "cutaway")


def record_cell(shell: Any, name: str, cell: str) -> None:
    """Run a cell while recording. An error in it is shown as always; what was recorded until then is shown, too."""
    from IPython.display import display

    path = Path(name or time.strftime("cell-%Y%m%d-%H%M%S.cutaway"))
    with cutaway.record(str(path)):
        shell.run_cell(cell)
    try:
        verdict = _verdict(path)
        page = _page(path)
    except CutawayError as error:
        print(f"cutaway: {error}")
        return
    print(verdict)
    shown = {"text/html": page, "text/plain": f"the page of {path}"}
    display(shown, raw=True)  # type: ignore[no-untyped-call]


def _verdict(path: Path) -> str:
    from cutaway.reports.terminal import print_verdict

    out = io.StringIO()
    print_verdict(path, out)
    return out.getvalue()


def _page(path: Path) -> str:
    """The page in a frame of its own: its style and script cannot touch the notebook, nor the notebook's the page."""
    from cutaway.reports.page.data import build_page

    page = html.escape(build_page(path), quote=True)
    size = f'style="width: 100%; height: {TALL}px; border: 0"'
    return f'<iframe title="Cutaway report" sandbox="allow-scripts" {size} srcdoc="{page}"></iframe>'
