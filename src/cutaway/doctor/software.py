"""Python, our own parts, and the frameworks that are installed; nothing of them is imported."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys
import sysconfig
from functools import partial
from importlib import metadata
from pathlib import Path

from cutaway.doctor.finding import LIMITED, MISSING, OK, Finding

SUPPORTED = ((3, 10), (3, 13))
FRAMEWORKS = {"PyTorch": ("torch",), "JAX": ("jax",), "TensorFlow": ("tensorflow", "tensorflow-cpu")}


def check_python() -> Finding:
    """Which Python; layers are told apart in CPython's own structures."""
    version, says = platform.python_version(), partial(Finding, "Python")
    if sys.implementation.name != "cpython":
        return says(MISSING, f"{sys.implementation.name} {version}", "run with CPython 3.10 to 3.13")
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return says(LIMITED, f"{version}, free-threaded", "use the build with the GIL: python3.13")
    if not SUPPORTED[0] <= sys.version_info[:2] <= SUPPORTED[1]:
        return says(LIMITED, f"{version} has not been tested", "use Python 3.10 to 3.13")
    debug = sysconfig.get_config_var("Py_DEBUG")
    return says(OK, version + (", debug build: everything is slower" if debug else ""))


def check_recorder() -> Finding:
    """Our native parts."""
    again = "pip install --force-reinstall cutaway"
    if importlib.util.find_spec("cutaway._recorder") is None:
        return Finding("recorder", MISSING, "cutaway._recorder is not installed", again)
    from cutaway.record.devices import library

    if library.load() is None:
        return Finding("recorder", LIMITED, "without libcutaway_devices.so", again)
    return Finding("recorder", OK, "with CUPTI collector and OpenCL layer")


def check_frameworks() -> list[Finding]:
    """Which of the known frameworks are installed, and for which accelerator."""
    return [_framework(name, packages) for name, packages in FRAMEWORKS.items()]


def _framework(name: str, packages: tuple[str, ...]) -> Finding:
    for package in packages:
        try:
            version = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
        return Finding(name, OK, version + (_torch_build() if package == "torch" else ""))
    return Finding(name, MISSING, "not installed", f"only needed for programs that use {name}")


def _torch_build() -> str:
    """Read from torch/version.py; importing torch would take seconds."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return ""
    try:
        text = Path(spec.origin).with_name("version.py").read_text()
    except OSError:
        return ""
    for key in ("cuda", "hip", "xpu"):
        found = re.search(rf"^{key}[^=\n]*=\s*'([^']+)'", text, re.MULTILINE)
        if found:
            return f", built for {key.upper()} {found[1]}"
    return ", built for the CPU only"
