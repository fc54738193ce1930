"""Bad installations: for another Python, machine or C library, mixed versions, no compiler. One sentence each."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import cutaway
from cutaway import _recorder
from cutaway.installed import explain

pytestmark = pytest.mark.core

ROOT = Path(__file__).parents[1]
SUFFIX = sysconfig.get_config_var("EXT_SUFFIX")
PROGRAM = "print('trained')"


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package, as somebody copied it: Python files and the native modules side by side."""
    package = tmp_path / "site" / "cutaway"
    shutil.copytree(
        Path(cutaway.__file__).parent,
        package,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for native in Path(_recorder.__file__).parent.glob("*.so"):
        shutil.copy(native, package)
    return package


def run(
    package: Path, *words: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """In a Python that knows only this copy (-S: no site-packages but those we name)."""
    places = [
        str(package.parent),
        *(path for path in sys.path if path.endswith("-packages")),
    ]
    start = f"import sys; sys.path[:0] = {places[:1]!r}; sys.path += {places[1:]!r}"
    code = f"{start}; sys.argv = ['cutaway', *{list(words)!r}]; from cutaway.commands import main; sys.exit(main())"
    return subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, **environment},
        cwd=package.parent,
        capture_output=True,
        text=True,
        timeout=120,
    )


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 1, done
    assert "Traceback" not in done.stderr and done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def test_a_complete_copy_works(copied: Path) -> None:
    done = run(copied, "--version")
    assert done.returncode == 0 and done.stdout == f"cutaway {cutaway.__version__}\n"
    assert run(copied, "show", "nothing.cutaway").stderr.startswith(
        "cutaway: There is no run at nothing.cutaway"
    )


def test_native_modules_of_an_older_version_are_refused(copied: Path) -> None:
    (copied / "version.py").write_text('__version__ = "99.1"\n')
    told = sentence(run(copied, "run", "train.py"))
    assert (
        f"built for version {cutaway.__version__}" in told and "of version 99.1" in told
    )
    assert "pip install --force-reinstall" in told


def test_a_program_with_mixed_versions_runs_unrecorded(copied: Path) -> None:
    (copied / "version.py").write_text('__version__ = "99.1"\n')
    code = f"import sys; sys.path[:0] = [{str(copied.parent)!r}]; import cutaway.record.activation; {PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "CUTAWAY": str(copied.parent / "x.cutaway")},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout) == (0, "trained\n")
    assert "is not recorded" in done.stderr and "of version 99.1" in done.stderr


@pytest.mark.parametrize(
    "tag", ["cpython-39-x86_64-linux-gnu", "cpython-311-riscv64-linux-gnu"]
)
def test_a_wheel_for_another_python_or_machine(copied: Path, tag: str) -> None:
    for native in copied.glob(f"*{SUFFIX}"):
        native.rename(native.with_name(native.name.replace(SUFFIX, f".{tag}.so")))
    told = sentence(run(copied, "run", "train.py"))
    assert f"built for {tag}" in told and "--force-reinstall" in told


def test_a_file_of_another_machine_under_the_right_name(copied: Path) -> None:
    recorder = copied / f"_recorder{SUFFIX}"
    data = bytearray(recorder.read_bytes())
    data[18:20] = (0x15).to_bytes(2, "little")  # e_machine: PowerPC
    recorder.write_bytes(data)
    told = sentence(run(copied, "run", "train.py"))
    assert (
        "_recorder, a native part of Cutaway, cannot be loaded" in told
        and "--force-reinstall" in told
    )


def test_no_native_modules_at_all(copied: Path) -> None:
    for native in copied.glob("*.so"):
        native.unlink()
    assert "_recorder, a native part of Cutaway, is missing" in sentence(
        run(copied, "run", "train.py")
    )


def test_a_newer_c_library_is_named(tmp_path: Path) -> None:
    """A library that asks for a glibc of the future; the sentence is made from what the real loader says."""
    library = tmp_path / f"_recorder{SUFFIX}"
    data = Path(_recorder.__file__).read_bytes()
    wanted = max(
        re.findall(rb"GLIBC_2\.\d+\0", data), key=len
    )  # two digits: 2.9 exists
    number = b"9" * (len(wanted) - len(b"GLIBC_2.\0"))
    future = b"GLIBC_2." + number + b"\0"
    data = _with_version(data, wanted[:-1], future[:-1])
    library.write_bytes(data)
    code = (
        "import importlib.util as u; "
        f"s = u.spec_from_file_location('cutaway._recorder', {str(library)!r}); u.module_from_spec(s)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    said = done.stderr.strip().splitlines()[-1].removeprefix("ImportError: ")
    told = explain(ImportError(said, name="cutaway._recorder"))
    assert told is not None
    assert (
        f"it needs GLIBC 2.{number.decode()}, here is glibc 2." in told
        and "--no-binary cutaway" in told
    )


def _with_version(data: bytes, old: bytes, new: bytes) -> bytes:
    """Another name for a required version, and the hash (SysV) by which the loader finds it."""
    return data.replace(old + b"\0", new + b"\0").replace(_hash(old), _hash(new))


def _hash(name: bytes) -> bytes:
    value = 0
    for byte in name:
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value.to_bytes(4, "little")


def test_errors_about_other_packages_stay_as_they_are() -> None:
    assert explain(ModuleNotFoundError("No module named 'torch'", name="torch")) is None
