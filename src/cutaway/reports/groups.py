"""Shows many processes as a few groups by host and role; only the outliers are listed by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median, mode

from cutaway.analysis.processes import HELPER

from .digest import WELL, Process

MANY = 12  # more processes than this are grouped
FEW = 3  # a group so small is shown one by one
FAR = 0.15  # of a core, or of the time: a process nearer to the median than this is not an outlier
SPREADS = 4  # and so many times the usual distance from it
MOST_ODD = 4


@dataclass(frozen=True)
class Group:
    """Processes of one role on one host. Its figures are the medians of its members, or what most of them have."""

    name: str
    host: str
    role: str
    exit: str
    life_ns: int
    cpu_share: float | None
    wait_share: float
    mostly: str
    members: tuple[Process, ...]
    pid: None = None

    @classmethod
    def of(cls, members: Sequence[Process]) -> Group:
        """Makes a group of processes that share a role and a host."""
        first = members[0]
        sampled = [m.cpu_share for m in members if m.cpu_share is not None]
        return cls(
            name=f"{len(members)} × {first.role or 'other'}",
            host=first.host,
            role=first.role,
            exit=mode(m.exit for m in members),
            life_ns=int(median(m.life_ns for m in members)),
            cpu_share=median(sampled) if sampled else None,
            wait_share=median(m.wait_share for m in members),
            mostly=mode(m.mostly for m in members),
            members=tuple(members),
        )

    def odd(self) -> list[Process]:
        """The odd ones out: those that failed, then those whose CPU time or waits are far from what is usual here."""
        far = dict.fromkeys(
            (m.id for m in self.members), 0.0
        )  # 1 is the limit of what is usual
        for key in ("cpu_share", "wait_share"):
            known = {
                m.id: value
                for m in self.members
                if (value := getattr(m, key)) is not None
            }
            middle = median(known.values() or [0.0])
            usual = median([abs(value - middle) for value in known.values()] or [0.0])
            for id, value in known.items():
                far[id] = max(far[id], abs(value - middle) / max(FAR, SPREADS * usual))
        found = [m for m in self.members if m.exit not in WELL or far[m.id] > 1]
        return sorted(found, key=lambda m: (m.exit in WELL, -far[m.id]))[:MOST_ODD]


def workforce(processes: Sequence[Process]) -> tuple[list[Process], list[Process]]:
    """The processes that do the program's work, and its helpers."""
    helpers = [process for process in processes if process.role == HELPER]
    return [process for process in processes if process.role != HELPER], helpers


def outline(processes: Sequence[Process]) -> Iterator[Process | Group]:
    """What to show of many processes: groups, each before its odd ones out, and the members of small groups."""
    found: dict[tuple[str, str], list[Process]] = {}
    for process in processes:
        found.setdefault((process.host, process.role), []).append(process)
    for members in found.values():
        if len(members) <= FEW:
            yield from members
        else:
            yield (group := Group.of(members))
            yield from group.odd()
