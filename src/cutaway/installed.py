"""Why our native modules cannot be loaded, in one sentence: an installation for another Python, machine or C library, or a mixed one."""

from __future__ import annotations

import importlib.machinery
import platform
import re
import sys
from pathlib import Path

MODULES = ("_recorder", "_sweep", "_imports", "_simulate")
AGAIN = "Install it again with this Python: pip install --force-reinstall cutaway."


def explain(error: ImportError, folder: Path = Path(__file__).parent) -> str | None:
    """A sentence with the remedy; None if the error is about something else."""
    if isinstance(
        error.__cause__, ImportError
    ):  # some extensions put a sentence of their own in front of ours
        error = error.__cause__
    text = str(error)
    module = next(
        (name for name in MODULES if name in text or name in (error.name or "")), None
    )
    if module is None:
        return None
    if "was built for version" in text:
        return f"{text}."
    if needed := re.search(r"`(GLIBC\w*_[\d.]+)' not found", text):
        return _older_library(needed[1])
    built = sorted(path.name for path in folder.glob(f"{module}.*so"))
    if not built:
        return f"{module}, a native part of Cutaway, is missing. {AGAIN}"
    loadable = {module + suffix for suffix in importlib.machinery.EXTENSION_SUFFIXES}
    if loadable.isdisjoint(built):
        return _other_python(built[0])
    return f"{module}, a native part of Cutaway, cannot be loaded ({text}). {AGAIN}"


def _older_library(needed: str) -> str:
    name, _, version = needed.partition("_")
    have = " ".join(platform.libc_ver())
    return (
        f"this Cutaway was built for a newer system: it needs {name} {version}, here is {have}. "
        "Build it here: pip install --no-binary cutaway --force-reinstall cutaway."
    )


def _other_python(built: str) -> str:
    """From the name of a file such as _recorder.cpython-312-aarch64-linux-gnu.so."""
    tag = built.partition(".")[2].removesuffix(".so")
    here = f"{sys.implementation.cache_tag}{sys.abiflags} on {platform.machine()}"
    return f"this Cutaway was built for {tag}, but this is {here}. {AGAIN}"
