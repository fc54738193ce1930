"""The summary for machines: `cutaway show --json`. docs/show.md describes the schema; its number grows when a key
changes its meaning or goes."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from .model import Digest
from .verdict import Verdict

SCHEMA = "cutaway.show/1"


def summary(digest: Digest, verdict: Verdict) -> dict[str, Any]:
    """Everything `cutaway show` says, as plain values."""
    return {
        "schema": SCHEMA,
        "run": {
            "path": digest.path,
            "program": digest.program,
            "command": digest.command,
            "created": digest.created,
            "host": digest.host,
            "state": digest.state,
            "source": digest.source,
            "devices": list(digest.devices),
            "facts": dict(digest.facts),
            "startup_ns": digest.startup_ns,
            "steady_ns": digest.steady_ns,
            "iterations": digest.iterations,
            "steps": digest.steps,
            "steps_per_second": digest.steps_per_second,
            "tokens": digest.tokens,
            "tokens_per_second": digest.tokens_per_second,
        },
        "verdict": {
            "rule": verdict.rule,
            "label": verdict.label,
            "because": verdict.because,
            "try": verdict.advice,
            "expected_speedup": verdict.speedup,
            "assuming": verdict.given,
            "then": verdict.then,
            "certain": verdict.certain,
            "at_most": verdict.at_most,
            "warnings": list(verdict.warnings),
        },
        "unit": {"name": digest.unit, "count": digest.units},
        "main_process": digest.main.id,
        "cells": [asdict(cell) for cell in digest.cells],
        "device_ns": dict(digest.device_ns),
        "machine": asdict(digest.machine),
        "processes": [{**asdict(p), "wait_share": p.wait_share} for p in digest.processes],
        "hotspots": [asdict(h) for h in digest.hotspots],
        "transitions": [
            {
                "operation": t.operation,
                "from": t.origin,
                "to": t.target,
                "count": t.count,
                "per_unit": t.per_iteration,
            }
            for t in digest.transitions
        ],
        "lines": [asdict(line) for line in digest.lines],
        "waits": [asdict(w) for w in digest.waits],
        "correction": asdict(digest.correction) if digest.correction else None,
        "losses": dict(digest.losses),
        "stopped": [asdict(s) for s in digest.stopped],
        "hangs": [asdict(h) for h in digest.hangs],
        "events": digest.events,
        "clock": digest.clock,
        "versions": {"python": digest.python, **digest.versions},
        "notes": list(digest.notes),
    }
