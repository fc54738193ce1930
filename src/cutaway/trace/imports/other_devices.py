"""Counters taken on another device than the trace they are imported with: a note says so."""

from __future__ import annotations

import numpy as np

from cutaway.trace.imports.recorded import Recorded
from cutaway.vocabulary import DeviceKind

_MAKERS = ("nvidia", "amd", "instinct", "tesla")


def note_other_devices(recorded: list[Recorded]) -> None:
    """Adds a note to each process whose counters do not fit the kernels of all."""
    for process in recorded:
        process.notes += [
            *_other_kind(process, recorded),
            *_other_number(process, recorded),
        ]


def _other_kind(process: Recorded, recorded: list[Recorded]) -> list[str]:
    """Counters of single kernels, of a file that names its device."""
    if not process.counters.kernels:
        return []
    own = _names(process)
    traced: set[str] = set()
    for other in recorded:
        traced |= set() if other.counters.kernels else _names(other)
    alike = any(_alike(one, other) for one in own for other in traced)
    if alike or not own or not traced:
        return []
    return [
        f"counters were taken on {', '.join(sorted(own))}, the trace on {', '.join(sorted(traced))}: "
        "shares are those of the device with the counters"
    ]


def _other_number(process: Recorded, recorded: list[Recorded]) -> list[str]:
    """Samples of a device on which no kernel ran."""
    sampled = {sample.device for sample in process.counters.samples}
    used: set[int] = set()
    for other in recorded:
        kernels = other.device["kind"] == DeviceKind.KERNEL
        used |= set(np.unique(other.device["device"][kernels]).tolist())
    idle = sorted(sampled - used)
    if not idle:
        return []
    named = ", ".join(map(str, idle))
    return [f"samples of GPU {named} belong to no kernel: none ran there"]


def _names(process: Recorded) -> set[str]:
    return {str(about["name"]) for about in process.devices if about.get("name")}


def _alike(one: str, other: str) -> bool:
    """Tools name the same device in more or fewer words.

    >>> _alike("NVIDIA A100-SXM4-40GB", "A100-SXM4-40GB"), _alike("Tesla T4", "NVIDIA A100")
    (True, False)
    """
    short, long = sorted((_plain(one), _plain(other)), key=len)
    return short in long


def _plain(name: str) -> str:
    words = name.lower().replace("-", " ").split()
    return " ".join(word for word in words if word not in _MAKERS)
