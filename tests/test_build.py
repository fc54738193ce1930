"""How the project is set up: what is installed, in which order, and that nothing can wait for ever."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from fnmatch import fnmatch
from importlib import metadata
from pathlib import Path

import pytest
import tomllib

from cutaway import __version__

ROOT = Path(__file__).parents[1]
HANGS = """
import threading

def test_waits_for_ever():
    threading.Event().wait()
"""


def requirements(name: str) -> dict[str, str]:
    """Packages and their versions, extras left out; an empty version where none is pinned."""
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    named = [
        re.sub(r"\[.*?\]", "", line) for line in lines if line and line[0] not in "#-"
    ]
    return {
        package: version
        for package, _, version in (line.partition("==") for line in named)
    }


def test_debian_packages_come_before_anything_is_built() -> None:
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith("MAKE")
    }
    planned = subprocess.check_output(
        ["make", "-n", "test"], cwd=ROOT, env=outside, text=True
    ).splitlines()
    assert planned[0] == "scripts/system-packages"


def test_a_test_that_hangs_fails_with_its_stack(
    tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    assert float(pytestconfig.getini("timeout")) == 600
    (tmp_path / "test_hangs.py").write_text(HANGS)
    (tmp_path / "pytest.ini").write_text("[pytest]\ntimeout = 2\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "test_hangs.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1
    assert (
        "Timeout (>2.0s)" in done.stdout and "threading.Event().wait()" in done.stdout
    )


@pytest.mark.parametrize(
    "name", ["demo.txt", "dev.txt", "frameworks.txt", "tensorflow.txt", "wheels.txt"]
)
def test_every_package_is_pinned(name: str) -> None:
    assert [
        package for package, version in requirements(name).items() if not version
    ] == []


def test_tests_and_builds_use_the_same_headers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = dict(
        line.partition(";")[0].split("==")
        for line in project["build-system"]["requires"]
        if line.startswith("nvidia-")
    )
    have = requirements("dev.txt")
    assert len(wanted) == 4 and all(
        fnmatch(have[package], version) for package, version in wanted.items()
    )


def test_the_version_has_one_home(tmp_path: Path) -> None:
    """version.py; the package's metadata, the command line, run.json, the citation and the changelog agree with it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project and project["dynamic"] == ["version"]
    assert metadata.version("cutaway") == __version__
    command = [sys.executable, "-m", "cutaway"]
    assert (
        subprocess.check_output([*command, "--version"], text=True)
        == f"cutaway {__version__}\n"
    )
    (tmp_path / "train.py").write_text("pass\n")
    subprocess.run(
        [*command, "run", "-q", "-o", "run.cutaway", "train.py"],
        cwd=tmp_path,
        check=True,
    )
    assert (
        json.loads((tmp_path / "run.cutaway" / "run.json").read_text())["cutaway"]
        == __version__
    )
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text()
    balance = (ROOT / "packages/balance/pyproject.toml").read_text()
    assert f'\nversion = "{__version__}"' in balance
    assert f'"cutaway=={__version__}"' in balance
    released = re.findall(
        r"^## (\d\S*) \(\d{4}-\d\d-\d\d\)$",
        (ROOT / "CHANGELOG.md").read_text(),
        re.MULTILINE,
    )
    assert released[0] == __version__


def test_the_changelog_is_sorted_by_release_and_kind() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text().splitlines()
    kinds = {line for line in lines if line.startswith("### ")}
    assert kinds <= {
        f"### {kind}"
        for kind in "Added Changed Deprecated Removed Fixed Security".split()
    }
    entries = [line for line in lines if line.startswith("- ")]
    assert len(entries) == len(set(entries))
    assert next(line for line in lines if line.startswith("## ")) == "## Unreleased"


def test_a_machine_without_a_compiler_is_told_in_one_sentence(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("cmake", "make", "uname"):
        found = shutil.which(name)
        assert found
        (tools / name).symlink_to(found)
    done = subprocess.run(
        [tools / "cmake", "-S", ROOT, "-B", tmp_path / "build", "-G", "Unix Makefiles"],
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    said = " ".join(done.stderr.split())
    assert (
        "Cutaway needs a C++ compiler to be built: install one (apt install g++), or install a wheel"
        in said
    )
