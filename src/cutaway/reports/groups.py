"""Many processes shown as few: one entry for those of the same host and role, and by name only the odd ones out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from .digest import Process

MANY = 12
"""More processes than this are grouped."""
FEW = 3  # a group so small is shown one by one
FAR = 0.15  # of a core, or of the time: what is nearer to the median is like the rest
SPREADS = 4  # and so many times the usual distance from it
MOST_ODD = 4
WELL = ("ok", "", "by parent")


@dataclass(frozen=True)
class Group:
    """Processes of one role on one host. Where a process has a figure, a group has the median of its members."""

    host: str
    role: str
    members: tuple[Process, ...]
    pid: None = None

    @property
    def name(self) -> str:
        """How many of what."""
        return f"{len(self.members)} × {self.role or self.members[0].name}"

    @property
    def life_ns(self) -> int:
        """How long they were recorded."""
        return int(median(member.life_ns for member in self.members))

    @property
    def cpu_share(self) -> float | None:
        """Of one core; None where none was sampled."""
        known = [member.cpu_share for member in self.members if member.cpu_share is not None]
        return median(known) if known else None

    @property
    def wait_share(self) -> float:
        """Share of the time spent blocked."""
        return median(member.wait_share for member in self.members)

    @property
    def mostly(self) -> str:
        """The operation most of them are busiest with."""
        return Counter(member.mostly for member in self.members).most_common(1)[0][0]

    @property
    def exit(self) -> str:
        """How most of them ended."""
        return Counter(member.exit for member in self.members).most_common(1)[0][0]

    def odd(self) -> list[Process]:
        """The odd ones out: those that failed, then those whose CPU time or waits are far from what is usual here."""
        cpu = _distances([member.cpu_share for member in self.members])
        waits = _distances([member.wait_share for member in self.members])
        far = {m.id: max(pair) for m, *pair in zip(self.members, cpu, waits, strict=True)}
        found = [m for m in self.members if m.exit not in WELL or far[m.id] > 1]
        return sorted(found, key=lambda m: (m.exit in WELL, -far[m.id]))[:MOST_ODD]


def _distances(values: Sequence[float | None]) -> list[float]:
    """How far each value is from the median, where 1 is the limit of what is usual."""
    known = [value for value in values if value is not None]
    middle = median(known or [0.0])
    usual = median([abs(value - middle) for value in known] or [0.0])
    return [0.0 if v is None else abs(v - middle) / max(FAR, SPREADS * usual) for v in values]


def grouped(processes: Sequence[Process]) -> list[Group]:
    """Processes by host and role, in the order in which the first of each started."""
    found: dict[tuple[str, str], list[Process]] = {}
    for process in processes:
        found.setdefault((process.host, process.role), []).append(process)
    return [Group(host, role, tuple(members)) for (host, role), members in found.items()]


def outline(processes: Sequence[Process]) -> Iterator[Process | Group]:
    """What to show of many processes: groups, each before its odd ones out, and the members of small groups."""
    for group in grouped(processes):
        if len(group.members) <= FEW:
            yield from group.members
        else:
            yield group
            yield from group.odd()
