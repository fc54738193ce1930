"""Libraries bring their own hooks, by entry points of the group `cutaway.frameworks`; docs/frameworks.md has the example."""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from recorded import notes, one, record, script

PAGE = Path(__file__).parents[2] / "docs" / "frameworks.md"
LIBRARY = """
class Game:
    def advance(self, moves):
        return [0.0] * len(moves)

class Learner:
    def learn(self):
        return 1.0
"""
PROGRAM = """
import mylib
game, learner = mylib.Game(), mylib.Learner()
for _ in range(5):
    for _ in range(4): game.advance([0, 1, 0])
    learner.learn()
print("done")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package with the hooks of the docs, installed by pip into a folder of its own."""
    hooks, project = re.findall(
        r"```(?:python|toml)\n(.*?)```", PAGE.read_text(), re.DOTALL
    )[:2]
    entry = project.splitlines()[1].replace('"', "")
    folder = tmp_path_factory.mktemp("mylib")
    wheel = folder / "mylib-1-py3-none-any.whl"
    files = {
        "mylib/__init__.py": LIBRARY,
        "mylib/cutaway_hooks.py": hooks,
        "mylib-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: mylib\nVersion: 1\n",
        "mylib-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: us\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "mylib-1.dist-info/entry_points.txt": f"[console_scripts]\nnothing = mylib:Game\n\n[cutaway.frameworks]\n{entry}\n",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
        archive.writestr(
            "mylib-1.dist-info/RECORD", "".join(f"{name},,\n" for name in files)
        )
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--target", str(folder / "installed"), str(wheel)], check=True
    )
    return folder / "installed"


@pytest.fixture
def library(tmp_path: Path, installed: Path) -> Path:
    return shutil.copytree(installed, tmp_path / "library")


def test_the_example_of_the_docs_names_a_library_nobody_else_knows(
    tmp_path: Path, library: Path
) -> None:
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py", env={"PYTHONPATH": str(library)})
    assert seen.operations == {"simulation": 20, "backpropagation": 5}
    assert (seen.steps, seen.iterations) == (60, 5)


def test_hooks_that_fail_are_a_note_and_harm_nobody(
    tmp_path: Path, library: Path
) -> None:
    (library / "mylib" / "cutaway_hooks.py").write_text(
        "def install(): raise RuntimeError('oh dear')\n"
    )
    script(tmp_path, PROGRAM)
    record(tmp_path, "train.py", env={"PYTHONPATH": str(library)})
    assert (
        "mylib: its hooks mylib.cutaway_hooks:install failed: RuntimeError: oh dear"
        in notes(tmp_path / "run.cutaway")
    )


def test_items_of_a_generator_are_named_where_they_are_made(
    tmp_path: Path, library: Path
) -> None:
    hooks = """
import mylib
from cutaway.instrument import instrument_items
def install(): instrument_items(mylib.Loader, "batches", "replay", iteration=True)
"""
    (library / "mylib" / "cutaway_hooks.py").write_text(hooks)
    program = """
import mylib, cutaway
class Loader:
    def batches(self, n):
        for i in range(n):
            with cutaway.operation("made"): pass
            got = yield i
            assert got in (None, "sent")
"""
    (library / "mylib" / "__init__.py").write_text(
        program.replace("import mylib, ", "import ")
    )
    script(
        tmp_path,
        """
        import cutaway, mylib
        used = []
        for i in mylib.Loader().batches(3):
            with cutaway.operation("used"): used.append(i)
        assert used == [0, 1, 2]
        batches = mylib.Loader().batches(2)
        assert next(batches) == 0 and batches.send("sent") == 1
        batches.close()
        """,
    )
    (seen,) = record(tmp_path, "train.py", env={"PYTHONPATH": str(library)})
    assert seen.inside["used", ""] == 3
    assert seen.inside["made", "replay"] == 4
    assert (
        seen.operations["replay"] == 3 + 1 + 1
    )  # the end of the first is found by asking once more


def test_a_library_that_is_not_imported_is_left_alone(
    tmp_path: Path, library: Path
) -> None:
    script(
        tmp_path,
        "import sys; assert not any(m.startswith('mylib') for m in sys.modules)",
    )
    assert not one(
        record(tmp_path, "train.py", env={"PYTHONPATH": str(library)}), name="train"
    ).operations


def test_libraries_on_paths_that_later_pth_files_add_are_found(
    tmp_path: Path, library: Path
) -> None:
    """The recorder is started by a .pth file; sys.path is not complete then."""
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")],
        check=True,
    )
    (packages,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    # Debian has several.
    added = [
        f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages()
    ]
    (packages / "a.pth").write_text("".join(added))
    (packages / "z.pth").write_text(f"{library}\n")
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, tmp_path / "venv" / "bin" / "python", "train.py")
    assert seen.operations["simulation"] == 20


def test_hooks_written_for_the_first_release_still_work(
    tmp_path: Path, library: Path
) -> None:
    hooks = """
import mylib
from cutaway.record.frameworks.cover import cover, cover_family
def install():
    cover_family(mylib.Game, ("advance",), "simulation", steps=lambda game, rewards: len(rewards))
    cover(mylib.Learner, "learn", "backpropagation", update=True, iteration=True)
"""
    (library / "mylib" / "cutaway_hooks.py").write_text(hooks)
    script(tmp_path, PROGRAM)
    (seen,) = record(tmp_path, "train.py", env={"PYTHONPATH": str(library)})
    assert seen.operations == {"simulation": 20, "backpropagation": 5}
