"""Meters: counters that wrap, counters that are not there, and one reader for a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutaway.record import meters
from cutaway.record.devices.cupti import driver_present
from cutaway.record.meters import connect_nvml, rapl_domains

pytestmark = pytest.mark.core


def counter(root: Path, energy: int) -> Path:
    folder = root / "intel-rapl:0"
    folder.mkdir(exist_ok=True)
    for name, text in {
        "name": "package-0",
        "max_energy_range_uj": "1000",
        "energy_uj": str(energy),
    }.items():
        (folder / name).write_text(text + "\n")
    return folder


def test_a_rapl_counter_that_wraps_counts_on(tmp_path: Path) -> None:
    counter(tmp_path, 900)
    (domain,), reason = rapl_domains(tmp_path)
    assert (domain.read(), reason) == (900, "")
    counter(tmp_path, 100)
    assert domain.read() == 1100
    counter(tmp_path, 150)
    assert domain.read() == 1150


def test_what_cannot_be_read_is_unavailable_and_says_so(tmp_path: Path) -> None:
    found, reason = rapl_domains(tmp_path)
    assert found == [] and "unavailable" in reason
    (tmp_path / "intel-rapl:0").mkdir()
    found, reason = rapl_domains(tmp_path)
    assert found == [] and "root" in reason


def test_a_counter_that_vanishes_is_none_not_zero(tmp_path: Path) -> None:
    folder = counter(tmp_path, 5)
    (domain,), _ = rapl_domains(tmp_path)
    (folder / "energy_uj").unlink()
    assert domain.read() is None
    assert meters.Reader(None, [domain]).sample()["rapl_uj"] == {}


def test_power_is_energy_over_time(tmp_path: Path) -> None:
    counter(tmp_path, 100)
    found, _ = rapl_domains(tmp_path)
    reader = meters.Reader(None, found)
    first = reader.sample()
    assert "power" not in first, "one reading is no power"
    counter(tmp_path, 300)
    second = reader.sample()
    assert second["power"]["cpu"] == round(200 * 1000 / (second["t"] - first["t"]), 3)


def test_nvml_is_not_woken_without_a_driver() -> None:
    if not driver_present():
        gpus, reason = connect_nvml()
        assert gpus is None and reason.startswith(
            "GPU power and utilisation are unavailable"
        )
