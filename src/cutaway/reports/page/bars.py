"""Where a unit goes, operation by layer, and how that changed over the run: what bars.js and time.js draw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cutaway.analysis.table import totals
from cutaway.reports.digest import Digest
from cutaway.reports.progress import counted_in
from cutaway.vocabulary import DEVICE_LAYERS, RESOURCES, THREAD_LAYERS

from .section import Source, short


def bars(of: Source) -> dict[str, Any]:
    """Operation × layer of the main process."""
    found = of.found
    unit = of.found.pace.unit
    what = {"run": "the whole run", "iteration": "an iteration"}.get(unit, f"a {unit}")
    whose = (
        f" of {found.main.name} (pid {found.main.pid})"
        if len(found.processes) > 1
        else ""
    )
    per = f"(per {unit}, {'corrected' if found.trust.correction else 'not corrected'})"
    title = short(
        f"Where {what}{whose} goes: operation × layer of the stack {per}", 200
    )
    return {"title": title, "rows": _rows(of.few)}


def _rows(found: Digest) -> list[dict[str, Any]]:
    unit = found.pace.units * 1e6
    cells = [c for c in found.spent.cells if c.layer in THREAD_LAYERS]
    layers = totals(((c.operation, c.layer), c.ns) for c in cells)
    resources = totals(((c.operation, c.resource), c.ns) for c in cells)
    device = totals(
        ((d["operation"], d["layer"]), d["ns"]) for d in found.spent.device_time
    )
    error = totals((c.operation, c.high_ns - c.low_ns) for c in cells)

    def divided(
        times: dict[tuple[str, str], int], name: str, parts: Iterable[str]
    ) -> list[list[Any]]:
        spent = [(part, times.get((name, part), 0)) for part in parts]
        return [[part, ns / unit] for part, ns in spent if ns]

    def on_device(name: str) -> list[list[Any]]:
        layers = DEVICE_LAYERS.values()
        return [[layer, device.get((name, layer), 0) / unit] for layer in layers]

    return [
        {
            "operation": short(name),
            "total": total / unit,
            "error": error.get(name, 0) / 2 / unit if found.trust.correction else 0,
            "layers": divided(layers, name, THREAD_LAYERS),
            "device": on_device(name),
            "resources": divided(resources, name, RESOURCES),
        }
        for name, total in found.operations().items()
    ]


def over_time(of: Source) -> dict[str, Any] | None:
    """The pace and the shares of the operations over the run; times in seconds since its start."""
    names = list(of.few.operations())
    stretches = of.few.stretches
    what = counted_in(stretches)
    if len(stretches) < 2:
        return None
    rows = []
    for stretch in stretches:
        shares = [[short(name), stretch.shares.get(name)] for name in names]
        rows.append(
            {
                "from": stretch.start_ns / 1e9,
                "to": stretch.end_ns / 1e9,
                "rate": stretch.rate(what),
                "shares": [one for one in shares if one[1]],
            }
        )
    paced = any(
        row["rate"] for row in rows
    )  # without steps and iterations there is no pace to draw
    line = f"{what} a second (line) and the share of each operation (below)"
    title = f"How the run went: {line if paced else 'the share of each operation'}"
    return {"title": title, "what": what, "rows": rows}
