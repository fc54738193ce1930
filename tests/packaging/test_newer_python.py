"""A Python that is newer than Cutaway: one sentence when it is installed and when it runs, no call sites, no samples.

There is no such Python yet, so the recorder is built as if this one were too new."""

from __future__ import annotations

import json
import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from throwing import build_throwing
from wheel_machine import Machine

ROOT = Path(__file__).parents[2]
PROGRAM = """
import cutaway
import throwing

for _ in range(50):
    cutaway.iteration()
    with cutaway.operation("simulation"):
        throwing.works()
    sum(range(200_000))
print("trained")
"""
ASK = """
import json, cutaway
run = cutaway.open("run.cutaway")
calls = [[row["function"], row["file"], row["count"]] for row in run.callsites()]
operations = {row["operation"]: row["count"] for row in run.operations()}
samples = sum(len(times) for process in run.trace.processes for times, _, _ in process.stack_samples())
notes = [note for process in run.trace.processes for note in process.log.notes]
print(json.dumps([calls, operations, samples, notes]))
"""


def build_for_older(machine: Machine) -> tuple[Path, str]:
    """The recorder alone, in a wheel, from sources that know no Python as new as this one; and what pip printed."""
    minor = int(
        machine.run("python", "-c", "import sys; print(sys.version_info.minor)")
    )
    settings = {
        "cmake.define.CUTAWAY_NEWEST_PYTHON": str(minor - 1),
        "build.targets": "_recorder",
        "install.components": "recorder",
        "build-dir": str(machine.folder / "objects"),
    }
    options = [
        word
        for name, value in settings.items()
        for word in ("--config-settings", f"{name}={value}")
    ]
    command = [
        machine.bin / "python",
        "-m",
        "pip",
        "wheel",
        "-v",
        "--no-deps",
        "-w",
        machine.folder / "newer",
    ]
    done = subprocess.run(
        [*command, *options, ROOT], capture_output=True, text=True, env=os.environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = (machine.folder / "newer").glob("*.whl")
    return wheel, done.stdout + done.stderr


@pytest.fixture(scope="module")
def newer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Machine, str]:
    machine = Machine(tmp_path_factory.mktemp("newer"))
    machine.install()
    wheel, printed = build_for_older(machine)
    site = machine.run(
        "python",
        "-c",
        "import cutaway, os; print(os.path.dirname(cutaway.__path__[0]))",
    )
    with zipfile.ZipFile(wheel) as archive:
        (recorder,) = (
            name
            for name in archive.namelist()
            if "_recorder" in name and name.endswith(".so")
        )
        archive.extract(recorder, site.strip())
    return machine, printed


def sentence(machine: Machine) -> str:
    version = machine.run(
        "python", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"
    ).strip()
    return f"Python {version} is newer than this version of Cutaway"


def test_pip_says_it_once(newer: tuple[Machine, str]) -> None:
    machine, printed = newer
    said = " ".join(printed.split())
    assert said.count(sentence(machine)) == 1
    assert "it will record without call sites and stack samples" in said


def test_the_program_is_recorded_without_call_sites_and_samples(
    newer: tuple[Machine, str],
) -> None:
    machine, _ = newer
    build_throwing(machine.folder, machine.bin / "python")
    (machine.folder / "train.py").write_text(PROGRAM)
    all_calls = ("--calibrate-share", "0", "--simulator", "throwing")
    told = machine.run("cutaway", "run", "-o", "run.cutaway", *all_calls, "train.py")
    assert told.startswith("trained\n")
    calls, operations, samples, notes = json.loads(machine.run("python", "-c", ASK))
    assert [sentence(machine) in note for note in notes] == [True]
    assert ["throwing.works", "", 50] in calls
    assert {file for function, file, _ in calls} == {""}
    assert operations["simulation"] == 50
    assert samples == 0


def test_the_doctor_says_it_too(newer: tuple[Machine, str]) -> None:
    machine, _ = newer
    found = {
        entry["what"]: entry
        for entry in json.loads(machine.run("cutaway", "doctor", "--json"))
    }
    assert found["Python"]["state"] == "limited"
    assert sentence(machine) in json.dumps(found["Python"])
