"""`cutaway doctor`: each check on machines made of files, and the command on this one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from device_runs import MAIN

from cutaway import doctor
from cutaway.doctor import Host, examine
from cutaway.record.devices import library

pytestmark = pytest.mark.core


def built(root: Path, files: dict[str, str], cores: int = 8, **environ: str) -> Host:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Host(root, environ, cores, root)


def test_a_quota_below_the_visible_cores_is_limited(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/pod/job\n",
        "sys/fs/cgroup/pod/cpu.max": "250000 100000",
        "sys/fs/cgroup/pod/job/cpu.max": "max 100000",
    }
    found = doctor.check_cpu_limits(built(tmp_path, files))
    assert (found.state, found.remedy) == (
        "limited",
        "set OMP_NUM_THREADS=2 or raise the limit",
    )
    assert "8 cores visible, a quota of 2.5" in found.text


def test_a_quota_of_the_old_control_groups(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:cpu,cpuacct:/job\n",
        "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "400000",
        "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000",
    }
    assert doctor.cpu_quota(built(tmp_path, files)) == 4.0


def test_no_quota_is_fine(tmp_path: Path) -> None:
    assert (
        doctor.check_cpu_limits(built(tmp_path, {"proc/self/cgroup": "0::/\n"})).state
        == "ok"
    )


@pytest.mark.parametrize(
    ("processes", "environ", "state", "remedy"),
    [
        (1, {}, "ok", ""),
        (4, {}, "limited", "set OMP_NUM_THREADS=2 for each process"),
        (4, {"OMP_NUM_THREADS": "2"}, "ok", ""),
        (
            16,
            {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "4"},
            "limited",
            "set OMP_NUM_THREADS=1 for each process",
        ),
        (1, {"OMP_NUM_THREADS": "many"}, "ok", ""),
    ],
)
def test_thread_pools_times_processes_against_cores(
    tmp_path: Path, processes: int, environ: dict[str, str], state: str, remedy: str
) -> None:
    found = doctor.check_thread_pools(built(tmp_path, {}, **environ), processes)
    assert (found.state, found.remedy) == (state, remedy)


def test_drivers_of_all_makers(tmp_path: Path) -> None:
    version = (
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 2025"
    )
    assert (
        doctor.check_driver(
            built(tmp_path / "n", {"proc/driver/nvidia/version": version})
        ).text
        == "NVIDIA 570.86.15"
    )
    assert (
        doctor.check_driver(built(tmp_path / "a", {"dev/kfd": ""})).state == "limited"
    )
    assert doctor.check_driver(
        built(tmp_path / "t", {"dev/accel0": ""})
    ).text.startswith("TPU")
    assert (
        doctor.check_driver(built(tmp_path / "c", {"etc/hosts": ""})).state == "missing"
    )


def test_a_missing_libcupti_is_one_sentence_with_a_remedy(tmp_path: Path) -> None:
    found = doctor.check_cupti(
        built(tmp_path, {}, CUTAWAY_CUPTI="/nowhere/libcupti.so.12")
    )
    assert (found.state, found.remedy) == ("missing", "check CUTAWAY_CUPTI")


def test_other_clients_are_named(tmp_path: Path) -> None:
    found = doctor.check_other_clients(
        built(
            tmp_path,
            {"proc/77/comm": "nsys\n"},
            CUDA_INJECTION64_PATH="/opt/nsys/inject.so",
        )
    )
    assert (
        found.state == "limited"
        and found.text == "CUDA_INJECTION64_PATH is set, nsys is running"
    )
    assert doctor.check_other_clients(built(tmp_path / "none", {})).state == "ok"


def test_opencl_without_a_driver_is_missing(tmp_path: Path) -> None:
    assert doctor.check_opencl(built(tmp_path, {})).state == "missing"


def test_rapl_that_cannot_be_read_names_the_remedy(tmp_path: Path) -> None:
    files = {"sys/class/powercap/intel-rapl:0/name": "package-0"}
    found = doctor.check_rapl(built(tmp_path, files))
    assert found.state == "limited" and "run as root" in found.remedy
    counters = {**files, "sys/class/powercap/intel-rapl:0/max_energy_range_uj": "1000"}
    counters["sys/class/powercap/intel-rapl:0/energy_uj"] = "900"
    assert (
        doctor.check_rapl(built(tmp_path, counters)).text == "1 counters: package-0:0"
    )


def test_ptrace_scopes(tmp_path: Path) -> None:
    file = "proc/sys/kernel/yama/ptrace_scope"
    assert doctor.check_ptrace(built(tmp_path / "0", {file: "0"})).state == "ok"
    assert doctor.check_ptrace(built(tmp_path / "3", {file: "3"})).state == "limited"


def test_a_driver_without_its_reader_is_named(tmp_path: Path) -> None:
    """The files say that there is a driver; asking it fails on a machine without one, in one sentence."""
    found = doctor.check_nvml(
        built(tmp_path, {"proc/driver/nvidia/version": "NVIDIA 570.86 x"})
    )
    assert found.state in ("missing", "ok") and "\n" not in found.text


def test_frameworks_are_found_without_importing_them() -> None:
    names = [finding.what for finding in doctor.check_frameworks()]
    assert names == ["PyTorch", "JAX", "TensorFlow"]
    assert doctor.check_python().state == "ok"


def test_a_free_threaded_python_cannot_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(doctor.sysconfig, "get_config_var", "Py_GIL_DISABLED".__eq__)
    found = doctor.check_python()
    assert found.state == "missing"
    assert "cannot be recorded" in found.text
    assert "the build with the GIL" in found.remedy


def test_every_build_has_every_collector() -> None:
    found = doctor.check_recorder()
    assert (found.state, found.text) == ("ok", "with CUPTI collector and OpenCL layer")
    # In a process of its own: other tests have started the collector of this one.
    ask = f"""
import ctypes
loaded = ctypes.CDLL({str(library.path())!r})
print(loaded.cutaway_cupti_state(), loaded.clInitLayer(0, None, None, None))
"""
    said = subprocess.run(
        [sys.executable, "-c", ask],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    # CUPTI is not started; CL_INVALID_VALUE: the OpenCL layer answers a loader.
    assert said.stdout.split() == ["-1", "-30"]


def test_every_finding_that_is_not_ok_says_what_to_do_or_needs_nothing() -> None:
    for finding in examine(Host()):
        assert finding.state in ("ok", "limited", "missing")
        assert (
            finding.state == "ok" or finding.remedy or finding.what == "GPU driver"
        ), finding


def test_the_command_in_80_columns_and_as_json() -> None:
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "doctor"], capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= 80
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "doctor", "--json"], capture_output=True, text=True
    )
    entries = json.loads(done.stdout)
    assert {"what", "state", "text", "remedy"} == set(entries[0])
    assert [e["what"] for e in entries][:2] == ["Python", "recorder"]
