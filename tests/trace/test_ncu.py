"""Reports of Nsight Compute, read with NVIDIA's own reader: a kernel whose work is known."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from foreign import SHARED

import cutaway
from cutaway.errors import CutawayError
from cutaway.reports.digests import digest_of
from cutaway.trace.imports import import_files

REPORT = SHARED / "counters" / "mlp.ncu-rep"
"""Has no licence, so it is not kept with the tests."""


@pytest.mark.parametrize("path", [REPORT] if REPORT.is_file() else [])
def test_a_matrix_addition(path: Path, tmp_path: Path) -> None:
    import_files([path], tmp_path / "run.cutaway")
    run = cutaway.open(tmp_path / "run.cutaway")
    (row,) = run.counters()
    assert row["flops"] == pytest.approx(1000 * 1000)  # one addition an element
    assert row["gbs"] == pytest.approx(262.508216676)  # as the report itself says
    assert row["dram"] == pytest.approx(0.8839294)
    assert row["sm_active"] == pytest.approx(0.957, abs=0.001)
    assert digest_of(run).verdict.rule == "bandwidth-bound"


def test_a_damaged_report_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "cut.ncu-rep"
    path.write_bytes(b"NVR\0" + b"\2\0\0\0" + b"x" * 64)
    with pytest.raises(CutawayError, match=r"cut\.ncu-rep"):
        import_files([path], tmp_path / "run.cutaway")


def test_without_the_reader_the_sentence_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ncu_report", None)
    path = tmp_path / "some.ncu-rep"
    path.write_bytes(b"NVR\0")
    with pytest.raises(CutawayError, match=r"pip install cutaway\[ncu\]"):
        import_files([path], tmp_path / "run.cutaway")
