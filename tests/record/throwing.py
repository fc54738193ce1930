"""Builds throwing.cpp, whose functions throw C++ exceptions, as a module of a given Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

ASK = "import sysconfig as s; print(s.get_path('include'), s.get_config_var('EXT_SUFFIX'))"


def build_throwing(folder: Path, python: Path) -> Path:
    """The module, in `folder`."""
    headers, suffix = subprocess.check_output([python, "-c", ASK], text=True).split()
    library = folder / f"throwing{suffix}"
    source = Path(__file__).with_name("throwing.cpp")
    subprocess.run(
        ["c++", "-shared", "-fPIC", f"-I{headers}", source, "-o", library], check=True
    )
    return library
