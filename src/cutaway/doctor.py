"""What can be recorded on this machine, and why not: a row of small checks, each one sentence.

Checks look and never change anything: no device is initialised, no framework imported. What might crash when it is asked
(a libcupti without its driver) is asked in a process of its own.
"""

from __future__ import annotations

import ctypes.util
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from cutaway.record import meters
from cutaway.record.devices import cupti, library

OK = "ok"
LIMITED = "limited"
MISSING = "missing"
FRAMEWORKS = {
    "PyTorch": ("torch",),
    "JAX": ("jax",),
    "TensorFlow": ("tensorflow-cpu", "tensorflow"),
}
POOLS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
PROFILERS = ("nsys", "ncu", "nv-hostengine", "dcgm", "nvprof")
NVIDIA = "proc/driver/nvidia/version"
NO_GPU = "only needed for NVIDIA GPUs"
PROBE = "import json; from cutaway.record.devices import cupti; print(json.dumps(cupti.probe()))"


class Finding(NamedTuple):
    """One line of the report. `remedy` is empty when there is nothing to do."""

    what: str
    state: str
    text: str
    remedy: str = ""


class Host(NamedTuple):
    """Where checks look; tests point `root` at a folder with the files of another machine."""

    root: Path = Path("/")
    environ: Mapping[str, str] = os.environ
    cores: int = 0
    folder: Path = Path()

    def read(self, path: str) -> str | None:
        """The text of a file such as proc/meminfo, None if it cannot be read."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None


def examine(host: Host, processes: int = 1) -> list[Finding]:
    """All checks, in the order in which a user wants to read them."""
    ours = [check_python(), check_recorder(), *check_frameworks()]
    gpu = [check_driver, check_cupti, check_other_clients, check_opencl, check_nvml]
    system = [check_rapl, check_perf, check_ptrace, check_cpu_limits]
    theirs = [check(host) for check in (*gpu, *system)]
    return [*ours, *theirs, check_thread_pools(host, processes), check_disk(host)]


def check_python() -> Finding:
    """Which Python; the recorder reads CPython's own structures."""
    version = sys.version.split()[0]
    if sys.implementation.name != "cpython":
        text = f"{sys.implementation.name} {version}"
        return Finding("Python", MISSING, text, "run with CPython 3.10 to 3.15")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        remedy = f"use the build with the GIL: python{sys.version_info[0]}.{sys.version_info[1]}"
        text = f"{version}, free-threaded: it cannot be recorded"
        return Finding("Python", MISSING, text, remedy)
    if limits := _limits():
        return Finding(
            "Python", LIMITED, f"{version}: no call sites, no stack samples", limits
        )
    debug = sysconfig.get_config_var("Py_DEBUG")
    return Finding(
        "Python", OK, version + (", debug build: everything is slower" if debug else "")
    )


def _limits() -> str:
    """What cannot be recorded on this Python; empty if the recorder is not installed, which another check reports."""
    try:
        from cutaway import _recorder
    except ImportError:
        return ""
    return _recorder.limits


def check_recorder() -> Finding:
    """Our native parts."""
    again = "pip install --force-reinstall cutaway"
    if importlib.util.find_spec("cutaway._recorder") is None:
        return Finding("recorder", MISSING, "cutaway._recorder is not installed", again)
    if library.load() is None:
        return Finding("recorder", LIMITED, "without libcutaway_devices.so", again)
    return Finding("recorder", OK, "with CUPTI collector and OpenCL layer")


def check_frameworks() -> list[Finding]:
    """Which of the known frameworks are installed, and for which accelerator."""
    found = []
    for name, packages in FRAMEWORKS.items():
        finding = Finding(
            name, MISSING, "not installed", f"only needed for programs that use {name}"
        )
        for package in packages:
            with suppress(metadata.PackageNotFoundError):
                if package == "torch":
                    build = _torch_build()
                else:
                    build = ""
                finding = Finding(name, OK, metadata.version(package) + build)
        found.append(finding)
    return found


def _torch_build() -> str:
    """Read from torch/version.py; importing torch would take seconds."""
    try:
        text = Path(
            str(metadata.distribution("torch").locate_file("torch/version.py"))
        ).read_text()
    except OSError:
        return ""
    found = re.search(r"^(cuda|hip|xpu)\b[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
    if found:
        return f", built for {found[1].upper()} {found[2]}"
    return ", built for the CPU only"


def check_driver(host: Host) -> Finding:
    """The NVIDIA driver, or another maker's."""
    text = host.read(NVIDIA)
    if text:
        found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
        return Finding(
            "GPU driver", OK, f"NVIDIA {found[1] if found else 'of unknown version'}"
        )
    if (host.root / "dev/dxg").exists():
        return Finding(
            "GPU driver",
            LIMITED,
            "NVIDIA through WSL",
            "CUPTI needs a current Windows driver",
        )
    if (host.root / "dev/kfd").exists():
        return Finding(
            "GPU driver", LIMITED, "AMD: kernels come from torch.profiler, in windows"
        )
    if any(host.root.glob("dev/accel*")):
        return Finding(
            "GPU driver", LIMITED, "TPU: work comes from jax.profiler, in windows"
        )
    remedy = "run on a machine with a GPU; CPU layers are recorded without one"
    return Finding("GPU driver", MISSING, "no accelerator driver", remedy)


def check_cupti(host: Host) -> Finding:
    """Whether libcupti is there and answers."""
    environment = dict(host.environ)
    wheel = cupti.wheel_library()
    if wheel is not None:
        environment.setdefault(cupti.CUPTI, str(wheel))
    environment.pop("CUTAWAY", None)
    command = [sys.executable, "-c", PROBE]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=60
        )
        code, text = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return Finding(
            "CUPTI",
            LIMITED,
            "libcupti does not report its version",
            "use --collector kineto",
        )
    if code <= 0:
        sentence, _, remedy = text.partition("; ")
        return Finding("CUPTI", MISSING, sentence, remedy)
    text = f"API version {code} ({text.rpartition('/')[2]})"
    if host.read(NVIDIA) is None and not (host.root / "dev/dxg").exists():
        return Finding("CUPTI", LIMITED, f"{text}, but no driver", NO_GPU)
    return Finding("CUPTI", OK, text)


def check_other_clients(host: Host) -> Finding:
    """CUPTI has room for one client in a process (below CUDA 13.3); who else might be one."""
    injected = (cupti.INJECTION, "NVTX_INJECTION64_PATH")
    ours = ("", str(library.path()))
    processes = (host.root / "proc").glob("[0-9]*/comm")
    running = {host.read(f"proc/{comm.parent.name}/comm") for comm in processes}
    others = [
        f"{name} is set" for name in injected if host.environ.get(name, "") not in ours
    ]
    others += [f"{name} is running" for name in PROFILERS if name in running]
    if host.environ.get("KINETO_USE_DAEMON"):
        others.append("KINETO_USE_DAEMON is set")
    if not others:
        return Finding("other CUPTI clients", OK, "none seen")
    remedy = "stop it, or use torch.profiler's events (--collector kineto)"
    return Finding("other CUPTI clients", LIMITED, ", ".join(others), remedy)


def check_opencl(host: Host) -> Finding:
    """Loader and drivers."""
    drivers = sorted(
        path.stem for path in (host.root / "etc/OpenCL/vendors").glob("*.icd")
    )
    text = f"drivers {', '.join(drivers)}"
    if not drivers:
        return Finding(
            "OpenCL",
            MISSING,
            "no driver",
            "only needed for OpenCL programs; try pocl-opencl-icd",
        )
    if ctypes.util.find_library("OpenCL") is None:
        remedy = "install ocl-icd-libopencl1, or use one that a Python package brings"
        return Finding("OpenCL", LIMITED, f"{text}, no loader on this system", remedy)
    return Finding("OpenCL", OK, text)


def check_nvml(host: Host) -> Finding:
    """GPU power and utilisation."""
    if host.read(NVIDIA) is None:
        return Finding(
            "NVML", MISSING, "no NVIDIA driver: GPU power is unavailable", NO_GPU
        )
    gpus, reason = meters.connect_nvml(present=True)
    if gpus is None:
        sentence, _, remedy = reason.partition(": ")
        return Finding("NVML", MISSING, sentence, remedy)
    text = f"driver {gpus.driver()}: {', '.join(gpus.names())}"
    gpus.close()
    return Finding("NVML", OK, text)


def check_rapl(host: Host) -> Finding:
    """CPU energy."""
    found, reason = meters.rapl_domains(host.root / "sys/class/powercap")
    if found:
        return Finding(
            "RAPL", OK, f"{len(found)} counters: {', '.join(d.name for d in found)}"
        )
    sentence, _, remedy = reason.partition("; ")
    if remedy:
        return Finding("RAPL", LIMITED, sentence, remedy)
    return Finding(
        "RAPL", MISSING, sentence, "none on this machine; CPU energy is not measured"
    )


def check_perf(host: Host) -> Finding:
    """Cutaway does not need hardware counters; tools that look deeper do."""
    level = host.read("proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return Finding(
            "perf",
            MISSING,
            "this kernel has no perf events",
            "not needed for Cutaway itself",
        )
    if os.geteuid() == 0 or int(level) <= 1:
        return Finding("perf", OK, f"perf_event_paranoid is {level}")
    return Finding(
        "perf",
        LIMITED,
        f"perf_event_paranoid is {level}",
        "sysctl kernel.perf_event_paranoid=1",
    )


def check_ptrace(host: Host) -> Finding:
    """Whether `cutaway attach`, debuggers and py-spy may look into running processes; nothing else needs to."""
    scope = host.read("proc/sys/kernel/yama/ptrace_scope")
    if scope in (None, "0") or (os.geteuid() == 0 and scope != "3"):
        return Finding(
            "ptrace", OK, "allowed" if scope is None else f"ptrace_scope is {scope}"
        )
    if scope == "1":
        remedy = "sysctl kernel.yama.ptrace_scope=0 for cutaway attach and py-spy"
        return Finding(
            "ptrace", OK, "children only (ptrace_scope 1), which is enough", remedy
        )
    return Finding(
        "ptrace",
        LIMITED,
        f"ptrace_scope is {scope}",
        "sysctl kernel.yama.ptrace_scope=1",
    )


def check_cpu_limits(host: Host) -> Finding:
    """How many cores we may use, against how many a program sees."""
    seen, usable, why = _cores(host)
    if usable >= seen:
        return Finding("CPU", OK, f"{seen} cores, no limit")
    text = f"{seen} cores visible, {why}: thread pools sized by visible cores are too large"
    remedy = f"set OMP_NUM_THREADS={max(1, int(usable))} or raise the limit"
    return Finding("CPU", LIMITED, text, remedy)


def check_thread_pools(host: Host, processes: int) -> Finding:
    """Threads that would compute at once: pools of each process times processes, against cores."""
    seen, usable, _ = _cores(host)
    stated = [
        (name, int(v))
        for name in POOLS
        if (v := host.environ.get(name, "")).isdigit() and int(v) > 0
    ]
    size = max((count for _, count in stated), default=seen)
    limits = ", ".join(f"{name}={count}" for name, count in stated)
    source = limits or "no limit set, so one thread per visible core"
    if processes == 1:
        each = "1 process"
    else:
        each = f"{processes} processes"
    text = f"{each} x {size} threads on {usable:g} cores ({source})"
    if size * processes < usable + 1:
        return Finding("thread pools", OK, text)
    fair = max(1, int(usable / processes))
    return Finding(
        "thread pools", LIMITED, text, f"set OMP_NUM_THREADS={fair} for each process"
    )


def _cores(host: Host) -> tuple[int, float, str]:
    """The cores a program sees, those it may use, and what limits it to these."""
    seen = host.cores or os.cpu_count() or 1
    allowed = host.cores or len(os.sched_getaffinity(0))
    quota = cpu_quota(host)
    if quota is not None and quota < allowed:
        return seen, quota, f"a quota of {quota:g}"
    return seen, allowed, f"an affinity of {allowed}"


def cpu_quota(host: Host) -> float | None:
    """The tightest CPU quota of our control groups and of those around them, in cores; None without one."""
    quotas = []
    for line in (host.read("proc/self/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for group in (PurePosixPath(path), *PurePosixPath(path).parents):
            limit = None
            period = None
            if not controllers:  # version 2 of control groups
                limit, _, period = (
                    host.read(f"sys/fs/cgroup{group}/cpu.max") or ""
                ).partition(" ")
            elif "cpu" in controllers.split(","):
                limit = host.read(f"sys/fs/cgroup/cpu{group}/cpu.cfs_quota_us")
                period = host.read(f"sys/fs/cgroup/cpu{group}/cpu.cfs_period_us")
            if limit and period and limit.isdigit():  # neither "max" nor -1
                quotas.append(int(limit) / int(period))
    return min(quotas, default=None)


def check_disk(host: Host) -> Finding:
    """Free space where a run would be written."""
    gb = shutil.disk_usage(host.folder).free / 1e9
    text = f"{gb:.1f} GB free here"
    if gb < 0.1:
        return Finding(
            "disk", MISSING, text, "free some space or record elsewhere with -o"
        )
    if gb < 1:
        return Finding(
            "disk",
            LIMITED,
            text,
            "record elsewhere with -o, or limit the run with --max-size",
        )
    return Finding("disk", OK, text)
