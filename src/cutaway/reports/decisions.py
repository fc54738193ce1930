"""Which classes were recognised by their behaviour, and which ones the user is asked about."""

from __future__ import annotations

from itertools import chain

from cutaway.analysis.run import Run

from . import text
from .printer import Printer


def decisions(run: Run) -> list[dict[str, str]]:
    """Each class or function once: `what` it is, the `operation` it was found to be ("" in doubt), `because`."""
    logged = chain.from_iterable(p.log.others for p in run.trace.processes)
    entries = [entry for entry in logged if entry["k"] == "decided"]
    found = {}
    for entry in entries:
        found[str(entry.get("what"))] = {
            key: str(entry.get(key)) for key in ("what", "operation", "because")
        }
    return list(found.values())


def questions(run: Run) -> list[str]:
    """Asked only where no simulation was found."""
    doubtful = [one["what"] for one in decisions(run) if not one["operation"]]
    if not doubtful or "simulation" in run.operations()["operation"].tolist():
        return []
    return [
        f"Is your `{name}` the simulation? Run again with `--simulation {name}`."
        for name in doubtful[:2]
    ]


def print_decisions(p: Printer, run: Run) -> None:
    """One line for each."""
    for one in decisions(run):
        name = text.clean(one["what"])
        is_ = one["operation"] or "not named"
        p.print(p.text(f"{name} is {is_}: {text.clean(one['because'])}."))
