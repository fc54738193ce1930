"""Results as text for the terminal and as tables for docs/naming.md."""

from __future__ import annotations

from typing import Any

from benchmarks.naming.compare import OFF_LIMIT, UNNAMED_LIMIT, Process, Result

BEGIN, END = "<!-- made by benchmarks.naming -->", "<!-- end -->"
SECTION = """{begin}

Each program is ours, written in the style of its framework's own examples, with an expert's annotation in it. It runs
twice: with the annotation only (detection off), and with detection on and the annotation recorded beside it. So each
nanosecond of the second run has a true and an automatic name. All figures are shares of the steady time of a process;
time in which a process waits for work and nobody names it is left out.

- **unnamed**: `(none)` in the automatic run. The limit is {unnamed:.0%}.
- **wrong**: time with a name that is not the true one.
- **farthest off**: the operation whose share differs most from the truth. The limit is {off:.0f} points.

{table}

Rows are the truth, columns what was found, cells percent of the steady time; `off` is the run with detection off.

{details}

{end}"""


def text(result: Result) -> str:
    """One program, for the terminal."""
    lines = [
        f"{result.program}  {'FAIL: ' + '; '.join(result.failures()) if result.failures() else 'ok'}"
    ]
    for process in result.processes:
        lines.append(
            f"  {process.name}: {process.total_ns / 1e9:.1f} s steady, unnamed {process.unnamed:.1%}, "
            f"wrong {process.misattributed:.1%}"
        )
        lines += [
            "    " + line
            for line in _confusion(process, result.reference.get(process.name))
        ]
    return "\n".join(lines)


def put_into(page: str, results: list[Result]) -> str:
    """A page with the tables between its two marks made anew."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(
            f"the page has no lines {BEGIN} and {END}; put them where the tables belong"
        )
    return head + _section(results) + tail


def _section(results: list[Result]) -> str:
    rows = [
        "| program | framework | unnamed | wrong | farthest off | |",
        "|---|---|---|---|---|---|",
    ]
    details = []
    for result in results:
        rows += _rows(result)
        if result.processes:
            details.append(f"### {result.program}\n")
        details += [_details(result, process) for process in result.processes]
    return SECTION.format(
        begin=BEGIN,
        end=END,
        unnamed=UNNAMED_LIMIT,
        off=OFF_LIMIT * 100,
        table="\n".join(rows),
        details="\n".join(details).rstrip(),
    )


def as_json(result: Result) -> dict[str, Any]:
    """One program, for machines."""
    return {
        "program": result.program,
        "framework": result.framework,
        "failures": result.failures(),
        "processes": [
            {
                "name": p.name,
                "steady_ns": p.total_ns,
                "idle_ns": p.idle_ns,
                "unnamed": p.unnamed,
                "misattributed": p.misattributed,
                "automatic": p.automatic(),
                "truth": p.truth(),
                "detection_off": result.reference.get(p.name, {}),
                "times": [[*names, ns] for names, ns in p.times.items()],
            }
            for p in result.processes
        ],
    }


def _rows(result: Result) -> list[str]:
    if result.error:
        return [
            f"| {result.program} | {result.framework} | – | – | – | {result.error} |"
        ]
    out = []
    for process in result.processes:
        name = result.program + (
            f": {process.name}" if len(result.processes) > 1 else ""
        )
        verdict = "; ".join(process.failures())
        out.append(
            f"| {name} | {result.framework} | {process.unnamed:.1%} | {process.misattributed:.1%} "
            f"| {_farthest(process)} | {'**' + verdict + '**' if verdict else 'ok'} |"
        )
    return out


def _farthest(process: Process) -> str:
    truth, found = process.truth(), process.automatic()
    off = {
        n: found.get(n, 0.0) - truth.get(n, 0.0)
        for n in (truth.keys() | found.keys()) - {""}
    }
    if not off:
        return "–"
    name = max(off, key=lambda n: abs(off[n]))
    return f"{name} {off[name] * 100:+.1f}"


def _details(result: Result, process: Process) -> str:
    title = (
        f"{process.name}, {process.total_ns / 1e9:.1f} s:\n\n"
        if len(result.processes) > 1
        else ""
    )
    lines = [
        f"    {line}"
        for line in _confusion(process, result.reference.get(process.name))
    ]
    return title + "\n".join(lines) + "\n"


def _confusion(process: Process, reference: dict[str, float] | None) -> list[str]:
    """Truth by automatic operation; the last columns are the truth's sums in this run and with detection off."""
    truth, found = process.truth(), process.automatic()
    columns = list(found)
    head = (
        [_short(name) for name in columns] + ["truth"] + (["off"] if reference else [])
    )
    lines = [f"{'':>15} " + " ".join(f"{name:>10}" for name in head)]
    for row in [*truth, *(n for n in found if n not in truth)]:
        cells = [
            process.times.get((row, column), 0) / max(process.total_ns, 1)
            for column in columns
        ]
        cells.append(truth.get(row, 0.0))
        if reference:
            cells.append(reference.get(row, 0.0))
        lines.append(
            f"{row or '(none)':>15} "
            + " ".join(f"{100 * c:>10.1f}" if c else " " * 10 for c in cells)
        )
    sums = " ".join(f"{100 * found[name]:>10.1f}" for name in columns)
    return [line.rstrip() for line in [*lines, f"{'found':>15} {sums}"]]


def _short(name: str) -> str:
    return (name or "(none)")[:10]
