"""Accelerators: driver, CUPTI and who else uses it, OpenCL, NVML."""

from __future__ import annotations

import ctypes.util
import json
import re
import subprocess
import sys
from functools import partial

from cutaway.doctor.finding import LIMITED, MISSING, OK, Finding, Host
from cutaway.record.devices import cupti, library

_PROBE = "import json; from cutaway.record.devices import cupti; print(json.dumps(cupti.probe()))"
_NO_GPU = "only needed for NVIDIA GPUs"
_PROFILERS = ("nsys", "ncu", "nv-hostengine", "dcgm", "nvprof")


def check_driver(host: Host) -> Finding:
    """The NVIDIA driver, or another maker's."""
    says = partial(Finding, "GPU driver")
    text = host.read("proc/driver/nvidia/version")
    if text:
        found = re.search(r"\s(\d+\.\d+(?:\.\d+)?)\s", text)
        return says(OK, f"NVIDIA {found[1] if found else 'of unknown version'}")
    if host.exists("dev/dxg"):
        return says(LIMITED, "NVIDIA through WSL", "CUPTI needs a current Windows driver")
    if host.exists("dev/kfd"):
        return says(LIMITED, "AMD: kernels come from torch.profiler, in windows", "")
    if any(host.root.glob("dev/accel*")):
        return says(LIMITED, "TPU: work comes from jax.profiler, in windows", "")
    return says(
        MISSING, "no accelerator driver", "run on a machine with a GPU; CPU layers are recorded without one"
    )


def check_cupti(host: Host) -> Finding:
    """Whether libcupti is there and answers; asked in a process of its own."""
    environment = dict(host.environ)
    wheel = cupti.wheel_library()
    if wheel is not None:
        environment.setdefault(cupti.CUPTI, str(wheel))
    command = [sys.executable, "-c", _PROBE]
    environment.pop("CUTAWAY", None)
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        code, text = json.loads(done.stdout.strip().splitlines()[-1])
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return Finding("CUPTI", LIMITED, "libcupti does not tell its version", "use --device kineto")
    if code > 0:
        text = f"API version {code} ({text.rpartition('/')[2]})"
        if host.read("proc/driver/nvidia/version") is None and not host.exists("dev/dxg"):
            return Finding("CUPTI", LIMITED, f"{text}, but no driver", _NO_GPU)
        return Finding("CUPTI", OK, text)
    sentence, _, remedy = text.partition("; ")
    return Finding("CUPTI", MISSING, sentence, remedy)


def check_other_clients(host: Host) -> Finding:
    """CUPTI has room for one client in a process (below CUDA 13.3); who else might be one."""
    others: list[str] = []
    for name in (cupti.INJECTION, "NVTX_INJECTION64_PATH"):
        value = host.environ.get(name, "")
        if value and value != str(library.path()):
            others.append(f"{name} is set")
    others += [f"{name} is running" for name in _PROFILERS if _runs(host, name)]
    if host.environ.get("KINETO_USE_DAEMON"):
        others.append("KINETO_USE_DAEMON is set")
    if not others:
        return Finding("other CUPTI clients", OK, "none seen")
    remedy = "stop it, or use torch.profiler's events (--device kineto)"
    return Finding("other CUPTI clients", LIMITED, ", ".join(others), remedy)


def check_opencl(host: Host) -> Finding:
    """Loader, drivers and our layer."""
    loader = ctypes.util.find_library("OpenCL")
    drivers = sorted(path.stem for path in (host.root / "etc/OpenCL/vendors").glob("*.icd"))
    if not drivers:
        return Finding("OpenCL", MISSING, "no driver", "only needed for OpenCL programs; try pocl-opencl-icd")
    if loader is None:
        text = f"drivers {', '.join(drivers)}, no loader on this system"
        remedy = "install ocl-icd-libopencl1, or use one that a Python package brings"
        return Finding("OpenCL", LIMITED, text, remedy)
    return Finding("OpenCL", OK, f"drivers {', '.join(drivers)}")


def check_nvml(host: Host) -> Finding:
    """GPU power and utilisation."""
    from cutaway.record import meters

    if host.read("proc/driver/nvidia/version") is None:
        return Finding("NVML", MISSING, "no NVIDIA driver: GPU power is unavailable", _NO_GPU)
    gpus, reason = meters.connect_nvml(present=True)
    if gpus is None:
        sentence, _, remedy = reason.partition(": ")
        return Finding("NVML", MISSING, sentence, remedy)
    text = f"driver {gpus.driver()}: {', '.join(gpus.names())}"
    gpus.close()
    return Finding("NVML", OK, text)


def _runs(host: Host, name: str) -> bool:
    for comm in (host.root / "proc").glob("[0-9]*/comm"):
        try:
            if comm.read_text().strip() == name:
                return True
        except OSError:
            continue
    return False
