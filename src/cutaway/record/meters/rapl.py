"""RAPL: the energy counters of processor packages and memory, as the kernel shows them (root only; absent in most VMs)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path("/sys/class/powercap")


@dataclass
class Domain:
    """One counter. It wraps around at `range_uj`; `read` counts on."""

    name: str
    path: Path
    range_uj: int
    _last: int = field(default=-1, repr=False)
    _added: int = field(default=0, repr=False)

    def read(self) -> int | None:
        """Microjoules since some time in the past; None if it cannot be read any more."""
        try:
            now = int((self.path / "energy_uj").read_text())
        except (OSError, ValueError):
            return None
        if now < self._last:
            self._added += self.range_uj
        self._last = now
        return self._added + now


def domains(root: Path = ROOT) -> tuple[list[Domain], str]:
    """The counters that can be read, and one sentence if none can."""
    folders = sorted(root.glob("*rapl*:*"))
    if not folders:
        return (
            [],
            "CPU energy is unavailable: this machine shows no RAPL counters (virtual machines seldom do)",
        )
    readable: list[Domain] = []
    for folder in folders:
        try:
            name = (folder / "name").read_text().strip()
            limit = int((folder / "max_energy_range_uj").read_text())
            int((folder / "energy_uj").read_text())
        except (OSError, ValueError):
            continue
        number = folder.name.partition(":")[2]
        readable.append(Domain(f"{name}:{number}", folder, limit))
    if readable:
        return readable, ""
    return (
        [],
        "CPU energy is unavailable: RAPL counters are readable by root only; run as root or chmod energy_uj",
    )
