"""Calibration of a run on disk: its own units, with the prior it was recorded with."""

from __future__ import annotations

from cutaway.calibration.ensure import of_run
from cutaway.calibration.estimate import Calibration, calibrate
from cutaway.calibration.units import units
from cutaway.trace.reader import Trace


def calibrate_run(trace: Trace) -> Calibration | None:
    """None for a run that Cutaway's own recorder did not make: what another one cost is not known."""
    if "cutaway" not in trace.about:
        return None
    return calibrate(units(trace), of_run(trace.path))
