"""A wheel, installed as a user would into an empty environment on a machine without a compiler."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from throwing import build_throwing
from wheel_machine import WHEEL, Machine

ROOT = Path(__file__).parents[2]
PROGRAM = """
import cutaway
import throwing

caught = []
for _ in range(50):
    with cutaway.operation("simulation"):
        caught.append(throwing.catches(throwing.throws))
        throwing.works()
print(len(caught), set(caught))
"""
ASK = """
import json, cutaway
run = cutaway.open("run.cutaway")
calls = {row["function"]: row["count"] for row in run.callsites()}
operations = {row["operation"]: row["count"] for row in run.operations()}
print(json.dumps([calls, operations]))
"""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    machine = Machine(tmp_path_factory.mktemp("wheel"))
    machine.install()
    build_throwing(machine.folder, machine.bin / "python")
    return machine


def test_a_program_is_profiled_and_cpp_exceptions_pass_through_recorded_calls(
    machine: Machine,
) -> None:
    (machine.folder / "train.py").write_text(PROGRAM)
    plain = machine.run("python", "train.py")
    assert plain == "50 {'thrown in native code'}\n"
    told = machine.run(
        "cutaway",
        "run",
        "-q",
        "-o",
        "run.cutaway",
        "--simulator",
        "throwing",
        "train.py",
    )
    assert told == plain
    calls, operations = json.loads(machine.run("python", "-c", ASK))
    assert {
        name: calls[f"throwing.{name}"] for name in ("catches", "throws", "works")
    } == {
        "catches": 50,
        "throws": 50,
        "works": 50,
    }
    assert operations["simulation"] == 50


def test_balance_comes_with_a_package_of_its_own(machine: Machine) -> None:
    without = subprocess.run(
        [machine.bin / "cutaway", "balance", "machine"], capture_output=True, text=True
    )
    assert without.returncode == 1 and "pip install cutaway-balance" in without.stderr
    assert "balance" not in machine.run("cutaway", "--help")
    machine.run("pip", "install", "-q", "--no-deps", str(ROOT / "packages/balance"))
    assert "advise" in machine.run("cutaway", "balance", "--help")
    described = json.loads(machine.run("cutaway", "balance", "machine", "--json"))
    assert described["threads"] >= described["cores"] >= 1


def test_every_collector_is_inside(machine: Machine) -> None:
    found = {
        entry["what"]: entry
        for entry in json.loads(machine.run("cutaway", "doctor", "--json"))
    }
    assert found["recorder"]["state"] == "ok", found["recorder"]
    assert found["Python"]["state"] == "ok"


@pytest.mark.parametrize(
    "tag",
    [
        "cp39-cp39-linux_x86_64",
        "cp311-cp311-manylinux_2_28_riscv64",
        "cp312-cp312-manylinux_2_99_x86_64",
    ],
    ids=["python", "machine", "glibc"],
)
def test_pip_refuses_a_wheel_for_another_system_in_one_sentence(
    machine: Machine, tag: str
) -> None:
    name, version = WHEEL.name.split("-")[:2]
    wheel = machine.folder / f"{name}-{version}-{tag}.whl"
    shutil.copy(WHEEL, wheel)
    done = subprocess.run(
        [machine.bin / "pip", "install", "-q", "--no-deps", "--no-index", wheel],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    assert said == [f"ERROR: {wheel.name} is not a supported wheel on this platform."]


def test_the_process_keeps_one_cpp_runtime(tmp_path: Path) -> None:
    """Nothing is bundled; the C++ library and the unwinder are the system's, and none of their parts are linked into ours."""
    with zipfile.ZipFile(WHEEL) as archive:
        names = [name for name in archive.namelist() if ".so" in name]
        archive.extractall(tmp_path, names)
    assert sorted(name.partition(".")[0] for name in names) == [
        "cutaway/_imports",
        "cutaway/_recorder",
        "cutaway/_simulate",
        "cutaway/_sweep",
        "cutaway/libcutaway_devices",
    ]
    for name in names:
        needed = subprocess.check_output(["readelf", "-d", tmp_path / name], text=True)
        assert {"libstdc++.so.6", "libgcc_s.so.1"} <= set(
            re.findall(r"NEEDED.*\[(.*)\]", needed)
        ), name
        defined = subprocess.check_output(
            ["nm", "-D", "--defined-only", tmp_path / name], text=True
        )
        assert not re.search(
            r" (_Unwind_\w+|__cxa_\w+|__gxx_personality_v0)", defined
        ), name
