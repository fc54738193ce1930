"""What reports say about the memory of devices: what each has, what is lost to fragmentation, what was refused."""

from __future__ import annotations

from typing import Any

from cutaway.analysis import Run

from . import text

_FRAGMENTED = 0.5  # of what is free, in segments that are in use
_WORTH_TELLING = 64 << 20


def sentences(run: Run) -> list[str]:
    """One for each device and fact."""
    found = [_total(row) for row in run.device_totals()]
    found += [_pool(row) for row in run.device_pools()]
    found += refusals(run)
    return [sentence for sentence in found if sentence]


def refusals(run: Run) -> list[str]:
    """The first allocation that each device refused."""
    first: dict[tuple[int, int], dict[str, Any]] = {}
    count: dict[tuple[int, int], int] = {}
    for row in run.device_refused():
        key = (row["process"], row["device"])
        first.setdefault(key, row)
        count[key] = count.get(key, 0) + 1
    return [_refusal(row, count[key] - 1) for key, row in first.items()]


def _total(row: dict[str, Any]) -> str:
    device = device_name(row["device"])
    framework = text.size(row["framework"])
    if row["in_use"] != row["in_use"]:
        return f"{device}: frameworks had {framework} at most."
    outside = ""
    if row["outside"] == row["outside"]:
        outside = f"; {text.size(row['outside'])} were not theirs (CUDA itself, NCCL, other programs)"
    return f"{device}: {text.size(row['in_use'])} in use at most, frameworks had {framework}{outside}."


def _pool(row: dict[str, Any]) -> str:
    free = row["reserved"] - row["allocated"]
    device = device_name(row["device"])
    has = f"{device} when the snapshot was taken: {text.size(row['allocated'])} allocated of {text.size(row['reserved'])} reserved"
    if free <= 0:
        return f"{has}."
    stuck = ""
    if row["stuck"]:
        stuck = f" {text.percent(row['stuck'] / free)} of the rest lies between blocks in use;"
    return f"{has};{stuck} the largest free block has {text.size(row['largest'])}.{_remedy(row, free)}"


def _remedy(row: dict[str, Any], free: int) -> str:
    if free < _WORTH_TELLING or row["stuck"] < _FRAGMENTED * free:
        return ""
    return " Try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True."


def _refusal(row: dict[str, Any], more: int) -> str:
    place = text.place(row["file"], row["line"])
    if place:
        at = f" at {text.shorten(place, 60)}"
    else:
        at = ""
    if more:
        again = f" ({more} more after that)"
    else:
        again = ""
    return (
        f"{device_name(row['device'])} refused {text.size(row['size'])}{at}{again}: it had {text.size(row['left'])} left, "
        f"and PyTorch had reserved {text.size(row['reserved'])}. See who has it with --by device-memory."
    )


def device_name(device: int) -> str:
    """`GPU 0`, or the CPU, which frameworks number below 0."""
    if device < 0:
        return "CPU"
    return f"GPU {device}"
