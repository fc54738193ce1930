"""What a run keeps of a command, and who may read what is made from it."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from recorded import cutaway, script

import cutaway as api
from cutaway.record.folder import without_values

pytestmark = pytest.mark.core

SECRET = "tr0ub4dor"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def files_with(folder: Path, text: str) -> list[str]:
    return [
        p.name
        for p in folder.rglob("*")
        if p.is_file() and text.encode() in p.read_bytes()
    ]


def test_no_value_of_an_argument_is_kept(tmp_path: Path) -> None:
    script(tmp_path, "import cutaway\nwith cutaway.operation('a'): pass")
    arguments = [
        "--wandb-key",
        SECRET,
        f"--token={SECRET}",
        f"-p{SECRET}",
        SECRET,
        "--lr",
        "0.1",
    ]
    assert (
        cutaway(
            "run", "-q", "-o", "r.cutaway", "train.py", *arguments, cwd=tmp_path
        ).returncode
        == 0
    )
    kept = api.open(tmp_path / "r.cutaway").trace.about["command"]
    assert kept[1:] == ["train.py", "--wandb-key", "--token", "-p", "--lr"]
    said = cutaway("show", "r.cutaway", "--json", cwd=tmp_path)
    assert "--wandb-key" in said.stdout
    assert cutaway("report", "r.cutaway", "-o", "r.html", cwd=tmp_path).returncode == 0
    assert files_with(tmp_path, SECRET) == [] and SECRET not in said.stdout


def test_arguments_are_kept_when_asked_for(tmp_path: Path) -> None:
    script(tmp_path, "import cutaway\nwith cutaway.operation('a'): pass")
    words = [
        "run",
        "-q",
        "--store-arguments",
        "-o",
        "r.cutaway",
        "train.py",
        "--lr",
        "0.1",
    ]
    assert cutaway(*words, cwd=tmp_path).returncode == 0
    assert api.open(tmp_path / "r.cutaway").trace.about["command"][1:] == [
        "train.py",
        "--lr",
        "0.1",
    ]


@pytest.mark.parametrize(
    "command, kept",
    [
        ("python -m rl.train env=Pong-v5 --seed 3", "python -m rl.train --seed"),
        (
            "/usr/bin/python3 -u -X dev train.py --seed 3",
            "/usr/bin/python3 -u -X train.py --seed",
        ),
        ("python app.pyz secret --x=1 -5 -- --y", "python app.pyz --x --y"),
        (
            "torchrun --nproc-per-node 2 train.py --config other.py",
            "torchrun --nproc-per-node train.py --config",
        ),
        ("bash -c export\\ KEY=1;train", "bash -c"),
        ("python -c print(1)", "python -c"),
        ("python", "python"),
    ],
)
def test_the_program_and_the_names_of_its_options_stay(command: str, kept: str) -> None:
    assert without_values(command.split(" ")) == kept.split(" ")


def test_what_is_made_from_a_run_is_private(tmp_path: Path) -> None:
    script(tmp_path, "import cutaway\nwith cutaway.operation('a'): pass")
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache")}
    assert (
        cutaway(
            "run", "-q", "-o", "r.cutaway", "train.py", cwd=tmp_path, env=environment
        ).returncode
        == 0
    )
    assert cutaway("report", "r.cutaway", "-o", "r.html", cwd=tmp_path).returncode == 0
    export = ["export", "r.cutaway", "-f", "chrome", "-o", "r.json"]
    assert cutaway(*export, cwd=tmp_path).returncode == 0
    made = [
        tmp_path / "r.html",
        tmp_path / "r.json",
        tmp_path / "r.cutaway" / "calibration.json",
    ]
    made += [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]
    assert {p.name: oct(mode(p)) for p in made} == dict.fromkeys(
        (p.name for p in made), oct(0o600)
    )
