"""The critical path through the lanes, in the window that is drawn in detail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis import Run
from cutaway.analysis.sweep import Bins
from cutaway.analysis.whatif.path import Piece, critical_path
from cutaway.reports import text
from cutaway.reports.digest import Digest

from .section import short
from .window import Window

_MOST_PROCESSES = 64
"""Of a run with more, the page would take noticeably longer."""
_MOST_SHARES, _LEAST_SHARE = 4, 0.02
_PLANE = ("path", "")


def critical(run: Run, found: Digest, windows: Sequence[Window], places: Mapping[int, int]) -> dict[str, Any] | None:  # fmt: skip
    """How much of each bin of each row lies on the path, and the largest shares in words; None: nobody waits for anybody there.
    `places`: the row of each thread."""
    if len(windows) < 2 or not 1 <= len(found.processes) <= _MOST_PROCESSES:
        return None
    detail = windows[1]
    edges = int(detail.cut.edges[0]), int(detail.cut.edges[-1])
    path = critical_path(run, edges)
    if path is None:
        return None
    rows = _rows(run, places)
    drawn = Window(detail.cut, [{} for _ in detail.rows])
    pieces: dict[int, list[Piece]] = {}
    for piece in path.pieces:
        if (row := rows.get((piece.process, piece.tid))) is not None:
            pieces.setdefault(row, []).append(piece)
    for row, own in pieces.items():
        drawn.add(row, _PLANE, covered(own, detail.cut))
    names = {process.id: text.middle(short(process.name), 40) for process in found.processes}  # fmt: skip
    shares = []
    for process, operation, ns in path.spent[:_MOST_SHARES]:
        share = ns / (edges[1] - edges[0])
        if share >= _LEAST_SHARE:
            shares.append([share, names.get(process, ""), short(operation)])
    return {"data": drawn.packed([_PLANE]), "bins": detail.cut.count, "shares": shares}


def _rows(run: Run, places: Mapping[int, int]) -> dict[tuple[int, int], int]:
    """The row of a thread by its process and tid."""
    threads = run.threads()
    columns = (threads[name].tolist() for name in ("process", "tid", "thread"))
    found = {}
    for process, tid, thread in zip(*columns, strict=True):
        if thread in places:
            found[int(process), int(tid)] = places[thread]
    return found


def covered(pieces: Sequence[Piece], cut: Bins) -> NDArray[np.float64]:
    """Nanoseconds of each bin that lie in a piece. Pieces do not overlap and come in order.

    >>> covered([Piece(0, 1, 5, 15), Piece(0, 1, 18, 20)], Bins(0, 10, 3)).tolist()
    [5.0, 7.0, 0.0]
    """
    edges = [(piece.start, piece.stop) for piece in pieces]
    lengths = [stop - start for start, stop in edges]
    until = np.cumsum(lengths)
    before = np.stack([until - lengths, until], axis=1)
    return np.diff(np.interp(cut.edges, np.ravel(edges), np.ravel(before)))
