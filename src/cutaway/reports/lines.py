"""Lines and functions by time: one row each with its total, and below it what that time is spent on."""

from __future__ import annotations

from typing import Any

from cutaway.analysis.table import totals

Rows = list[dict[str, Any]]
Place = tuple[str, str, int]  # function, file, line

BELOW_A_LINE = {"function": "", "file": "", "line": 0, "library": False, "where": ""}
"""The place in a row that stands below a line."""
MOST = 0.5  # a line of yours with more of the time than this …
BELOW = (
    0.9  # … nearly all of it in a library's code, calls a framework that runs the loop
)


def ranked(parts: Rows, total: float) -> Rows:
    """One row for each line (or function), the longest first. `parts` are rows of `Run.lines`.

    A line that calls a framework's loop does not show where the time goes, so the library's own lines are listed instead.
    """
    loop = _loop(parts, total)
    found: dict[tuple[str, ...], Rows] = {}
    for part in parts:
        place = _shown(part, loop)
        found.setdefault(_key(place, part), []).append(part | _named(place, part))
    rows = [_row(members, total) for members in found.values()]
    return sorted(rows, key=lambda row: -int(row["ns"]))


def _inner(part: dict[str, Any]) -> Place:
    return part["function"], part["file"], part["line"]


def _yours(part: dict[str, Any]) -> Place:
    return part["your_function"], part["your_file"], part["your_line"]


def _loop(parts: Rows, total: float) -> Place | None:
    """The line of yours that calls a framework's loop, if there is one."""
    own = totals((_yours(part), part["ns"]) for part in parts if part["your_file"])
    longest = max(own, key=lambda place: own[place], default=None)
    if longest is None or own[longest] <= MOST * total:
        return None
    # A line that does one thing is not a loop, however deep in a library: `pipe.recv()`.
    inside = totals(
        (part["operation"], part["ns"]) for part in parts if _yours(part) == longest
    )
    if max(inside.values()) >= BELOW * own[longest]:
        return None
    below = sum(
        part["ns"]
        for part in parts
        if _yours(part) == longest and _inner(part) != longest
    )
    if below >= BELOW * own[longest]:
        return longest
    return None


def _shown(part: dict[str, Any], loop: Place | None) -> Place:
    """Your line if it is informative, else the library's."""
    yours = _yours(part)
    if yours == loop or not part["your_file"]:
        return _inner(part)
    return yours


def _key(place: Place, part: dict[str, Any]) -> tuple[str, ...]:
    """Equal keys become one row. A comprehension is a function, but not a line of its own."""
    function, file, line = place
    if not file:
        return ("", part["native"])
    if line:
        return (file, str(line))
    return (file, function)


def _named(place: Place, part: dict[str, Any]) -> dict[str, Any]:
    function, file, line = place
    library = bool(file) and file != part["your_file"]
    inside = part["native"] or ("" if _inner(part) == place else part["function"])
    return {
        "function": function,
        "file": file,
        "line": line,
        "where": part["native"] or "not sampled",
        "library": library,
        "inside": inside,
    }


def _row(members: Rows, total: float) -> dict[str, Any]:
    below: dict[tuple[str, str], Rows] = {}
    for part in members:
        below.setdefault((part["inside"], part["operation"]), []).append(part)
    calls = [
        {"inside": inside, "operation": operation, **_time(of, total)}
        for (inside, operation), of in below.items()
    ]
    calls.sort(key=lambda call: -int(call["ns"]))
    operations = totals((part["operation"], part["ns"]) for part in members)
    longest = max(members, key=lambda part: int(part["ns"]))
    place = {
        key: longest[key] for key in ("function", "file", "line", "library", "where")
    }
    mostly = {
        "inside": calls[0]["inside"],
        "operation": max(operations, key=lambda name: operations[name]),
    }
    return {**place, **mostly, **_time(members, total), "calls": calls}


def _time(parts: Rows, total: float) -> dict[str, Any]:
    ns = sum(part["ns"] for part in parts)
    error = sum(part["error_ns"] ** 2 for part in parts) ** 0.5
    samples = sum(part["samples"] for part in parts)
    return {
        "ns": ns,
        "error_ns": round(error),
        "samples": samples,
        "share": ns / max(1, total),
        "error": error / max(1, total),
    }
