"""The rules of the verdict: one list, read from the top; the first that holds speaks. docs/verdicts.md explains the same list.

To add one: a class in a file of this folder, and its place here.
"""

from __future__ import annotations

from . import hardware, machine, rollouts, thin, waits, work
from .rule import COVERED, HALVED, Rule

__all__ = ["BY_NAME", "COVERED", "HALVED", "RULES", "Rule"]

RULES: tuple[Rule, ...] = (
    thin.Hang(),
    hardware.FarFromPeak(),
    hardware.BandwidthBound(),
    hardware.ComputeBound(),
    hardware.CountersOnly(),
    thin.Failed(),
    thin.Short(),
    thin.OneJittedCall(),
    thin.WithoutOperations(),
    waits.WorkersCost(),
    machine.Oversubscribed(),
    rollouts.LongTail(),
    rollouts.WeightSync(),
    rollouts.TrainerStarved(),
    rollouts.Stale(),
    rollouts.RolloutStarved(),
    machine.TransferBound(),
    machine.AcceleratorBound(),
    machine.LaunchBound(),
    waits.Straggler(),
    thin.WorkersWithoutCores(),
    waits.SimulationInWorkers(),
    waits.InferenceInServer(),
    waits.Gil(),
    waits.LearnerStarved(),
    waits.Waiting(),
    thin.Shared(),
    work.PythonGlue(),
    work.NativeBound(),
    *work.OPERATION_RULES,
    work.OwnOperation(),
    thin.Starved(),
    work.PartlyNamed(),
    work.Balanced(),
)
BY_NAME = {rule.name: rule for rule in RULES}
