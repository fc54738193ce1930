"""A run in at most 60 lines, for coding agents and for people in a hurry; the same as JSON.

The JSON obeys `brief.schema.json` beside this file, and the lines are made from the JSON. The number of the schema grows when a key
changes its meaning or goes; new keys may come. `next` says what to run now: a program that follows it needs to know nothing else.
"""

from __future__ import annotations

import json
import shlex
from importlib import resources
from pathlib import Path
from typing import Any

from cutaway.analysis import Run
from cutaway.analysis.table import totals

from . import rollouts, text
from .columns import Rows
from .digest import Digest
from .rows import awaited_lines, holder_lines
from .tables import VIEWS

SCHEMA = "cutaway.brief/1"
MOST_LINES = 60
MOST_OPERATIONS, MOST_PLACES, MOST_WAITS, MOST_WARNINGS = 8, 6, 4, 5
MOST_WIDTH = 240
LEAST_SHARE = 0.01
PLACE = ("file", "line", "function", "operation", "share", "library")
UNJUDGED = ("thin-failed", "thin-time")
Found = dict[str, Any]


def schema() -> Found:
    """The JSON schema of a brief."""
    file = resources.files(__package__).joinpath("brief.schema.json")
    found: Found = json.loads(file.read_text(encoding="utf-8"))
    return found


def brief(run: Run, digest: Digest) -> Found:
    """What a reader needs first. Shares are of the main process's steady state; intervals hold 95 %; unknown is null."""
    return {
        "schema": SCHEMA,
        "run": _about(digest),
        "verdict": _verdict(digest),
        "trust": _trust(digest),
        "rates": _rates(digest),
        "rollouts": _rollouts(digest),
        "operations": _operations(digest),
        "lines": _lines(VIEWS["line"].rows(run.steady(), digest)),
        "waits": _waits(digest),
        "worker_lines": _lines(awaited_lines(run.steady(), digest)),
        "gil_lines": _lines(holder_lines(digest)),
        "next": _next(digest),
    }


def _about(digest: Digest) -> Found:
    return {
        "path": digest.program.path,
        "program": digest.program.name,
        "command": digest.program.command,
        "state": digest.ending.state,
        "processes": len(digest.processes),
        "main_process": digest.main.name,
        "steady_seconds": digest.pace.steady_ns / 1e9,
        "unit": digest.pace.unit,
        "units": digest.pace.iterations or round(digest.pace.units),
    }


def _verdict(digest: Digest) -> Found:
    verdict = digest.verdict
    gain = None
    if verdict.expected and verdict.speedup is not None:
        kind = "at most" if verdict.at_most else "estimate"
        gain = {
            "percent": 100 * (verdict.speedup - 1),
            "kind": kind,
            "given": verdict.given,
        }
    return {
        "rule": verdict.rule,
        "label": verdict.label,
        "because": verdict.because,
        "try": verdict.advice,
        "gain": gain,
        "then": verdict.then or None,
    }


def _trust(digest: Digest) -> Found:
    correction = digest.trust.correction
    removed = correction and {
        "percent": 100 * correction.removed,
        "error_percent": 100 * correction.error,
    }
    return {
        "certain": digest.verdict.certain,
        "warnings": list(digest.verdict.warnings),
        "notes": list(digest.trust.notes),
        "overhead_removed": removed,
        "lost_events": sum(digest.trust.losses.values()),
        "events": digest.trust.events,
    }


def _rates(digest: Digest) -> Found:
    machine = digest.machine
    return {
        "steps_per_second": digest.pace.steps_per_second,
        "tokens_per_second": digest.pace.tokens_per_second,
        "ms_per_unit": digest.total_ns / digest.pace.units / 1e6,
        "cores": machine.cores,
        "cores_busy": machine.cores_busy,
        "cores_used_by_others": machine.other_cores,
        "device_busy": machine.device_busy,
    }


def _rollouts(digest: Digest) -> Found | None:
    """How samples of a language model were made and used; None where nobody told."""
    found = digest.rollouts
    says = rollouts.sentence(found)
    if not says:
        return None
    return {
        "says": says,
        "most_sequences": found.peak,
        "mean_sequences": found.mean,
        "tail_share": found.tail_share,
        "queue": found.queue,
        "queue_empty": found.queue_empty,
        "staleness": found.staleness,
        "discarded_share": found.discarded_share,
    }


def _operations(digest: Digest) -> list[Found]:
    """Operations of the main process, per unit. The interval is that of the correction."""
    folded = digest.folded(MOST_OPERATIONS)
    total = max(1, folded.total_ns)
    rows = []
    for name, ns in folded.operations().items():
        cells = [cell for cell in folded.spent.cells if cell.operation == name]
        layers = totals((cell.layer, cell.ns) for cell in cells)
        row: Found = {
            "operation": name,
            "share": ns / total,
            "ms": ns / digest.pace.units / 1e6,
        }
        row["interval_ms"] = None
        if digest.trust.correction:
            bounds = (
                sum(cell.low_ns for cell in cells),
                sum(cell.high_ns for cell in cells),
            )
            row["interval_ms"] = [bound / digest.pace.units / 1e6 for bound in bounds]
        row["layers"] = {layer: part / total for layer, part in layers.items() if part}
        rows.append(row)
    return rows


def _lines(rows: Rows) -> list[Found]:
    """Lines of Python by time, a library's marked. The interval is that of the samples; null if there are none."""
    found = []
    for row in rows:
        if not row["file"] or row["share"] < LEAST_SHARE:
            continue
        place = {key: row[key] for key in PLACE}
        low = row["share"] - row["error"]
        high = row["share"] + row["error"]
        interval = [max(0.0, low), min(1.0, high)] if row["samples"] else None
        mostly = row["inside"] or "itself"
        found.append({**place, "interval": interval, "mostly": mostly})
    return found[:MOST_PLACES]


def _waits(digest: Digest) -> list[Found]:
    """Whom the main process waits for."""
    own = [wait for wait in digest.waits if wait.process == digest.main_process]
    total = max(1, digest.total_ns)
    found = totals(
        ((wait.partner or "unknown", wait.operation), wait.ns) for wait in own
    )
    longest = sorted(found.items(), key=lambda one: -one[1])
    worth = [(key, ns) for key, ns in longest if ns >= LEAST_SHARE * total]
    return [
        {"for": partner, "operation": name, "share": ns / total}
        for (partner, name), ns in worth[:MOST_WAITS]
    ]


def _next(digest: Digest) -> list[Found]:
    """What to run now, in this order."""
    path = shlex.quote(digest.program.path)
    look = {
        "command": f"cutaway show {path} --by {digest.verdict.look}",
        "why": "see the evidence",
    }
    if digest.ending.state == "recording":
        return [look]
    after = shlex.quote(_another(digest.program.path))
    again = {
        "command": f"cutaway run -o {after} {_program(digest)}",
        "why": "record again with the same arguments, after one change",
    }
    if digest.verdict.rule in UNJUDGED:
        return [again]
    check = {
        "command": f"cutaway diff {path} {after}",
        "why": "did the change help, beyond chance?",
    }
    return [look, again, check]


def _another(path: str) -> str:
    """A folder for the next recording, beside this one."""
    stem = path.rstrip("/").removesuffix(".cutaway")
    number = 2
    while Path(f"{stem}-{number}.cutaway").exists():
        number += 1
    return f"{stem}-{number}.cutaway"


def _program(digest: Digest) -> str:
    """The program as one writes it after `cutaway run`."""
    words = shlex.split(digest.program.command)
    if words and Path(words[0]).name.startswith("python"):
        words = words[1:]
    if words:
        return shlex.join(words)
    return "PROGRAM"


def lines(found: Found) -> list[str]:
    """The brief as plain lines, at most MOST_LINES of them."""
    out = [
        *_head(found),
        *_trust_lines(found["trust"]),
        *_tables(found),
        *_commands(found["next"]),
    ]
    assert len(out) <= MOST_LINES
    return [text.clip(text.ascii_only(text.clean(line)), MOST_WIDTH) for line in out]


def _head(found: Found) -> list[str]:
    run = found["run"]
    verdict = found["verdict"]
    plural = text.plural(run["units"], run["unit"])
    about = (
        f"{run['program']}, {run['state']}, {text.plural(run['processes'], 'process')}"
    )
    out = [
        f"schema: {found['schema']}",
        f"run: {run['path']} ({about}, {text.significant(run['steady_seconds'], 3)} s steady state, {plural})",
        f"rule: {verdict['rule']}",
        f"verdict: {verdict['label']}",
        f"because: {verdict['because']}",
        f"try: {verdict['try']}",
    ]
    if gain := verdict["gain"]:
        out.append(
            f"gain: {gain['kind']} {gain['percent']:+.0f} % throughput {gain['given']}"
        )
    if verdict["then"]:
        out.append(f"then: {verdict['then']}")
    return out


def _trust_lines(trust: Found) -> list[str]:
    sure = (
        "yes"
        if trust["certain"]
        else "no, do not act on it before the warnings are dealt with"
    )
    out = [f"certain: {sure}"]
    said = [("warning", warning) for warning in trust["warnings"]] + [
        ("note", n) for n in trust["notes"]
    ]
    out += [f"{kind}: {sentence}" for kind, sentence in said[:MOST_WARNINGS]]
    if len(said) > MOST_WARNINGS:
        out.append(f"note: {len(said) - MOST_WARNINGS} more notes; see --json")
    removed = trust["overhead_removed"]
    if removed:
        amount = (
            f"{removed['percent']:.1f} +- {removed['error_percent']:.1f} % of the time"
        )
        out.append(
            f"overhead: {amount} removed; lost {trust['lost_events']} of {trust['events']} events"
        )
    else:
        out.append(
            f"overhead: not corrected; lost {trust['lost_events']} of {trust['events']} events"
        )
    return out


def _tables(found: Found) -> list[str]:
    rates = found["rates"]
    unit = found["run"]["unit"]
    figures = [f"{text.significant(rates['ms_per_unit'])} ms per {unit}"]
    for key, name in (
        ("steps_per_second", "steps/s"),
        ("tokens_per_second", "tokens/s"),
    ):
        figures += [f"{text.significant(rates[key])} {name}"] if rates[key] else []
    if rates["cores_busy"] is not None:
        figures.append(f"{rates['cores_busy']:.1f} of {rates['cores']} cores busy")
    if rates["device_busy"] is not None:
        figures.append(f"device busy {text.percent(rates['device_busy'])}")
    out = [f"rates: {', '.join(figures)}"]
    if found["rollouts"]:
        out.append(f"rollouts: {found['rollouts']['says']}")
    out.append(f"operations of {found['run']['main_process']}:")
    out += [f"  {_operation_line(row, unit)}" for row in found["operations"]]
    for key, title in (
        ("lines", "lines by time"),
        ("worker_lines", "lines of the processes it waits for"),
        ("gil_lines", "lines of other threads that hold the GIL while it waits"),
    ):
        if found[key]:
            out += [
                f"{title} (share, 95 % interval):",
                *(f"  {_place_line(row)}" for row in found[key]),
            ]
    if found["waits"]:
        out.append("waits for:")
        for row in found["waits"]:
            during = text.operation(row["operation"])
            out.append(f"  {text.percent(row['share'])}  {row['for']} in {during}")
    return out


def _operation_line(row: Found, unit: str) -> str:
    interval = "no interval"
    if row["interval_ms"]:
        low, high = row["interval_ms"]
        interval = f"{text.significant(low)} to {text.significant(high)}"
    ranked_layers = sorted(row["layers"].items(), key=lambda one: -one[1])
    layers = ", ".join(
        f"{text.percent(share)} {layer}" for layer, share in ranked_layers[:3]
    )
    name = text.operation(row["operation"])
    return f"{name}: {text.percent(row['share'])}, {text.significant(row['ms'])} ms per {unit} ({interval}): {layers}"


def _place_line(row: Found) -> str:
    interval = "no interval"
    if row["interval"]:
        low, high = row["interval"]
        interval = f"{text.percent(low)} to {text.percent(high)}"
    whose = " (library)" if row["library"] else ""
    where = f"{row['file']}:{row['line']}{whose}"
    doing = f"{row['function']} in {text.operation(row['operation'])}, mostly {row['mostly']}"
    return f"{text.percent(row['share'])} ({interval})  {where}  {doing}"


def _commands(steps: list[Found]) -> list[str]:
    return [f"next: {step['command']}  # {step['why']}" for step in steps]
