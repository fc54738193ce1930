"""The meters through NVIDIA's own Python binding, on a libnvidia-ml.so.1 of our own: readings, refusals, and joules by operation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from device_runs import HERE, in_run, inject

import cutaway
from cutaway.analysis import energy
from cutaway.trace.reader import read_run

PROGRAM = str(HERE / "programs/metered.py")
UNAVAILABLE = (
    "GPU power and utilisation are unavailable: the NVIDIA driver does not answer"
)


def build(folder: Path, *flags: str) -> Path:
    folder.mkdir(exist_ok=True)
    command = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", *flags]
    target = ["-o", str(folder / "libnvidia-ml.so.1"), "-Wl,-soname,libnvidia-ml.so.1"]
    subprocess.run([*command, str(HERE / "fake_nvml.c"), *target], check=True)
    return folder


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("nvml"))


def ask(library: Path, **environment: str) -> tuple[list[dict[str, int]] | None, str]:
    variables = {**os.environ, "LD_LIBRARY_PATH": str(library), **environment}
    variables.pop("CUTAWAY", None)
    done = subprocess.run(
        [sys.executable, PROGRAM, "ask"], env=variables, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found, reason = json.loads(done.stdout)
    return found, reason


def test_what_a_gpu_tells(library: Path) -> None:
    found, reason = ask(library)
    assert found is not None and reason == ""
    (gpu,) = found
    assert (gpu["utilisation"], gpu["memory"], gpu["sm_mhz"], gpu["power_mw"]) == (
        40,
        3 << 30,
        1410,
        250_000,
    )
    assert gpu["energy_mj"] > 0
    assert gpu["own_memory"] == 123 << 20, (
        "of our process, not of the other one on the GPU"
    )


def test_a_driver_without_the_energy_counter_tells_the_rest(tmp_path: Path) -> None:
    found, _ = ask(build(tmp_path / "old", "-DOLD"))
    assert (
        found is not None
        and "energy_mj" not in found[0]
        and found[0]["power_mw"] == 250_000
    )


def test_what_is_not_permitted_is_left_out_not_zero(library: Path) -> None:
    found, _ = ask(library, FAKE_NVML_REFUSES="1")
    assert found is not None and set(found[0]) == {
        "id",
        "utilisation",
        "memory",
        "sm_mhz",
        "energy_mj",
    }


@pytest.mark.parametrize(
    ("code", "words"), [("9", "Driver Not Loaded"), ("4", "Insufficient Permissions")]
)
def test_a_driver_that_does_not_answer_is_unavailable(
    library: Path, code: str, words: str
) -> None:
    found, reason = ask(library, FAKE_NVML_INIT=code)
    assert found is None and reason == f"{UNAVAILABLE} ({words})"


def test_a_library_that_is_missing_is_unavailable(tmp_path: Path) -> None:
    found, reason = ask(tmp_path)
    assert found is None and reason.startswith(UNAVAILABLE)


def metered(run: Path, library: Path, fake: Path, **environment: str) -> Path:
    variables = inject(fake) | {"LD_LIBRARY_PATH": str(library)} | environment
    done = in_run(run, [sys.executable, PROGRAM, "3"], **variables)
    assert done.returncode == 0, done.stderr
    return run


def gpu_samples(run: Path) -> list[dict[str, Any]]:
    (process,) = read_run(run).processes
    return [gpu for sample in process.log.samples for gpu in sample.get("gpu", [])]


def test_joules_by_operation_from_the_counter(
    tmp_path: Path, library: Path, fake_cupti: Path
) -> None:
    """What the counter says was used is divided by how long each operation kept the device busy."""
    folder = metered(tmp_path / "e.cutaway", library, fake_cupti)
    counts = [gpu["energy_mj"] for gpu in gpu_samples(folder)]
    run = cutaway.open(folder)
    found = run.energy()
    assert found["method"] == energy.METHOD
    assert sum(found["gpu_joules"].values()) == pytest.approx(
        (counts[-1] - counts[0]) / 1000
    )
    busy = {row["operation"]: row["ns"] for row in run.device_time()}
    ratio = found["gpu_joules"]["backpropagation"] / found["gpu_joules"]["inference"]
    assert ratio == pytest.approx(busy["backpropagation"] / busy["inference"])


def test_a_gpu_that_is_lost_keeps_what_it_told_before(
    tmp_path: Path, library: Path, fake_cupti: Path
) -> None:
    folder = metered(tmp_path / "l.cutaway", library, fake_cupti, FAKE_NVML_LOST="1")
    samples = gpu_samples(folder)
    assert "energy_mj" in samples[0] and samples[-1] == {"id": 0}, "left out, not 0"


def test_a_driver_that_does_not_answer_leaves_energy_unavailable(
    tmp_path: Path, library: Path, fake_cupti: Path
) -> None:
    folder = metered(tmp_path / "n.cutaway", library, fake_cupti, FAKE_NVML_INIT="9")
    assert cutaway.open(folder).energy()["gpu_joules"] is None
    (process,) = read_run(folder).processes
    assert f"{UNAVAILABLE} (Driver Not Loaded)" in process.log.notes


def test_the_doctor_names_driver_and_gpu(tmp_path: Path, library: Path) -> None:
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: x  570.86.15  Thu"
    )
    program = (
        "import sys; from pathlib import Path; from cutaway import doctor;"
        "print(doctor.check_nvml(doctor.Host(Path(sys.argv[1]))))"
    )
    for code, words in (
        ("0", "text='driver 570.86.15: Fake GPU'"),
        ("9", "state='missing'"),
    ):
        variables = {
            **os.environ,
            "LD_LIBRARY_PATH": str(library),
            "FAKE_NVML_INIT": code,
        }
        command = [sys.executable, "-c", program, str(tmp_path)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True)
        assert done.returncode == 0 and words in done.stdout, done.stderr
