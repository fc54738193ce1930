"""Limits and meters of a measured program with real processes: control groups, adopted orphans, the CPU probe."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutaway.errors import CutawayError
from cutaway.machines import machine
from cutaway.machines.machine import Machine
from cutaway_balance import grid, limits, point, probe
from cutaway_balance.point import Family, Plan, Setting

pytestmark = pytest.mark.core

ORPHAN = """
import os, sys, time
if os.fork():
    os._exit(0)
end = time.thread_time() + 0.3
while time.thread_time() < end:
    pass
"""


def test_cpu_time_of_orphans_counts_as_the_programs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "cutaway_balance.point.PATIENCE", 300.0
    )  # on a busy machine it takes its time
    family = Family()
    subprocess.run([sys.executable, "-c", ORPHAN], check=True)
    assert family.gather()[1] > 0.3


def test_a_program_that_stays_is_ended_with_its_point(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cutaway_balance.point.PATIENCE", 0.2)
    family = Family()
    subprocess.run(
        [sys.executable, "-c", "import os, time\nif not os.fork(): time.sleep(600)"],
        check=True,
        close_fds=True,
    )
    start = time.monotonic()
    family.gather()
    assert time.monotonic() - start < 60


def test_version_2_groups_get_cpus_or_a_quota(tmp_path: Path) -> None:
    for offered, file, text in (
        ("cpuset cpu", "cpuset.cpus", "0,2"),
        ("cpu", "cpu.max", "200000 100000"),
    ):
        parent = tmp_path / offered.replace(" ", "-")
        parent.mkdir()
        (parent / "cgroup.controllers").write_text(offered)
        folder = parent / "new"
        folder.mkdir()
        limits._limit(2, parent, folder, frozenset({0, 2}))
        assert (folder / file).read_text() == text
        assert (parent / "cgroup.subtree_control").read_text() == "+" + offered.split()[
            0
        ]


def test_a_group_holds_a_program_that_widens_its_affinity_or_says_why_not(
    tmp_path: Path,
) -> None:
    try:
        limits.check_groups()
    except CutawayError as error:
        assert "--limit-by affinity" in str(error)
        with pytest.raises(CutawayError, match="cannot create a control group"):
            grid.check(Plan(("x",), cpus=(1,), limit_by="cgroup"))
        return
    script = tmp_path / "wide.py"
    script.write_text(
        "import os\ntry:\n    os.sched_setaffinity(0, range(os.cpu_count()))\nexcept OSError: pass\n"
        "for i in range(9): print('cpus', len(os.sched_getaffinity(0)), 'fps=5')\n"
    )
    plan = Plan((sys.executable, str(script)), metric="fps=([0-9]+)", limit_by="cgroup")
    point.measure(plan, Setting(cpus=1), tmp_path / "p")
    assert "cpus 1 " in (tmp_path / "p" / "output.txt").read_text()
    assert not any(
        folder.name.endswith(f"cutaway-{os.getpid()}")
        for _, p in limits.places()
        for folder in p.iterdir()
    )


def test_no_place_for_a_group_is_one_sentence() -> None:
    with pytest.raises(CutawayError, match="--limit-by affinity"):
        with limits.group(frozenset({0}), among=[(2, Path("/proc"))]):
            pass


def test_sm_shares_need_a_driver_and_the_mps_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert limits.sm_environment(None) == limits.sm_environment(100) == {}
    driver = tmp_path / "version"
    monkeypatch.setattr(limits, "DRIVER", driver)
    with pytest.raises(CutawayError, match="NVIDIA driver"):
        limits.sm_environment(50)
    driver.write_text("x")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path / "mps"))
    with pytest.raises(CutawayError, match="nvidia-cuda-mps-control -d"):
        limits.sm_environment(50)
    (tmp_path / "mps").mkdir()
    (tmp_path / "mps" / "control").write_text("")
    assert limits.sm_environment(50) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "50"}
    with pytest.raises(CutawayError, match="percentage"):
        limits.sm_environment(101)


def test_the_probe_measures_this_cpu(tmp_path: Path) -> None:
    found = probe.probe(rounds=1, burst=0.05)
    assert 0.1 < found.turbo <= 1
    assert (found.smt_yield is None) == (found.threads == found.cores)
    assert ("SMT: none here" in "\n".join(found.lines())) == (found.smt_yield is None)
    path = tmp_path / "here.toml"
    machine.save(found.machine(), path)
    assert machine.load(str(path)) == found.machine()


def test_what_was_measured_while_others_were_busy_is_not_believed() -> None:
    disturbed = probe.Probed(2, 4, turbo=0.5, smt_yield=1.9, wake=1e-3, share=0.4)
    assert disturbed.machine() == probe.here()
    assert "not used" in disturbed.lines()[-1]
    quiet = probe.Probed(
        2, 4, turbo=0.8, smt_yield=1.3, wake=5e-5, share=0.99
    ).machine()
    assert (quiet.turbo, quiet.smt_yield, quiet.wake) == (0.8, 1.3, 5e-5)


def test_fewer_cpus_are_physical_cores_first() -> None:
    whole = Machine("smt", 4, 8, smt_yield=1.2, turbo=0.7)
    assert whole.limited_to(None) == whole.limited_to(8) == whole
    for cpus in range(1, 9):
        part = whole.limited_to(cpus)
        assert part.capacity(cpus) == pytest.approx(whole.capacity(cpus))
