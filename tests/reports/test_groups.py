"""Many processes are shown as groups by host and role, with the odd ones out by name."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import cutaway
from cutaway.reports.digest import Process
from cutaway.reports.digests import digest_at
from cutaway.reports.groups import MANY, Group, outline
from cutaway.reports.page.data import page_data
from cutaway.reports.terminal import print_summary

from .runs import crowd

pytestmark = pytest.mark.core


def process(
    id: int, cpu: float, exit: str = "ok", role: str = "actor", host: str = "a"
) -> Process:
    return Process(
        id, 100 + id, 0, f"{role}-{id}", role, 0, 1_000_000, exit, 1, int(cpu * 1_000_000), 5, 0,
        {"simulation": 1}, {"simulator": 1}, host,
    )  # fmt: skip


def test_groups_are_by_host_and_role_and_name_the_odd_ones_out() -> None:
    actors = [process(i, 0.8 + 0.01 * (i % 3)) for i in range(10)]
    odd = [process(10, 0.1), process(11, 0.8, exit="SIGKILL")]
    elsewhere = [process(20 + i, 0.3, host="b") for i in range(5)]
    learner = process(30, 1.0, role="learner")
    shown = list(outline([learner, *actors, *odd, *elsewhere]))
    assert [s.name for s in shown] == [
        "learner-30",
        "12 × actor",
        "actor-11",
        "actor-10",
        "5 × actor",
    ]
    group = shown[1]
    assert isinstance(group, Group)
    assert (group.host, group.mostly, group.exit, group.pid) == (
        "a",
        "simulation",
        "ok",
        None,
    )
    assert (
        group.cpu_share == pytest.approx(0.8, abs=0.011) and group.life_ns == 1_000_000
    )


def test_a_group_that_differs_in_itself_has_no_odd_ones() -> None:
    (group,) = outline([process(i, i / 20) for i in range(20)])
    assert group.name == "20 × actor"


def summary(path: Path) -> str:
    out = io.StringIO()
    print_summary(digest_at(path), out)
    return out.getvalue()


def test_show_has_one_row_for_a_group_and_one_for_the_straggler(tmp_path: Path) -> None:
    said = summary(crowd(tmp_path / "a.cutaway", workers=40, slow=7))
    rows = [
        line.split()[0] for line in said.splitlines() if "actor" in line and "%" in line
    ]
    assert "40 × actor" in said or "40 x actor" in said
    assert "env-07" in rows and "env-08" not in rows
    assert "learner " in said and "--by process" in said
    few = summary(crowd(tmp_path / "b.cutaway", workers=MANY - 1))
    assert all(f"env-{i:02d}" in few for i in range(MANY - 1)) and "medians" not in few


def test_the_page_groups_its_tree(tmp_path: Path) -> None:
    path = crowd(tmp_path / "a.cutaway", workers=40, slow=7, computes=False)
    tree = page_data(cutaway.open(path))["sections"]["tree"]["rows"]
    assert [(row["name"], row["depth"]) for row in tree] == [
        ("learner", 0),
        ("40 × actor", 0),
        ("env-07", 1),
    ]
    group, straggler = tree[1:]
    assert group["pid"] is None and group["cpu"] == straggler["cpu"]
    assert group["strip"].count("8") > len(group["strip"]) / 2  # 80 % of a core
