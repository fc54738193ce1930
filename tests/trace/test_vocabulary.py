"""Names and layouts are declared in one module: one edit there reaches C++, Python and the page."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cutaway import vocabulary
from cutaway.trace import format as fmt

pytestmark = pytest.mark.core
ROOT = Path(__file__).parents[2]
CODE = [
    p
    for folder in ("src", "native")
    for p in (ROOT / folder).rglob("*")
    if p.suffix in {".py", ".js", ".h", ".cpp"}
]


def test_only_the_vocabulary_lists_operations_and_layers() -> None:
    lists = {
        "operations": r'"reward",?\s*"reference"',
        "layers of threads": f'"{vocabulary.ACCELERATOR_API}"',
        "layers of devices": r'"memset",\s*"collective"',
    }
    for what, pattern in lists.items():
        found = [
            p.name for p in CODE if re.search(pattern, p.read_text(encoding="utf-8"))
        ]
        assert set(found) <= {"vocabulary.py"}, what


def test_a_new_layer_and_a_new_operation_are_one_line_each(tmp_path: Path) -> None:
    # given a copy of the sources in which two lines were added
    package = tmp_path / "src" / "cutaway"
    package.mkdir(parents=True)
    (tmp_path / "native").mkdir()
    shutil.copy(ROOT / "native" / "vocabulary_header.py", tmp_path / "native")
    shutil.copy(ROOT / "src" / "cutaway" / "version.py", tmp_path / "src" / "cutaway")
    text = (ROOT / "src" / "cutaway" / "vocabulary.py").read_text(encoding="utf-8")
    text = text.replace(
        '    "wait": Layer(',
        '    "storage": Layer("storage", "#123456", 0.3, "disks"),\n    "wait": Layer(',
        1,
    )
    text = text.replace(
        '    "replay": (',
        '    "curriculum": ("#654321", "", "easy first"),\n    "replay": (',
        1,
    )
    (package / "vocabulary.py").write_text(text, encoding="utf-8")
    # when C++ and Python read them
    header = tmp_path / "vocabulary.h"
    subprocess.run(
        [sys.executable, tmp_path / "native" / "vocabulary_header.py", header],
        check=True,
    )
    declared = runpy.run_path(str(package / "vocabulary.py"))
    # then both know the layer by one number, and the page how to draw it
    native = re.search(
        r"enum Layer : uint8_t { (.*), kLayers };", header.read_text(encoding="utf-8")
    )
    assert native is not None
    assert native[1].split(", ").index("kStorage") == declared["THREAD_LAYERS"].index(
        "storage"
    )
    assert declared["drawn"]()["layers"]["storage"]["colour"] == "#123456"
    assert '"backpropagation", "curriculum", "replay"' in header.read_text(
        encoding="utf-8"
    )


def test_an_operation_in_the_middle_moves_the_ids_of_those_behind_it(
    tmp_path: Path,
) -> None:
    # given a vocabulary with a new operation before all others but one
    text = (ROOT / "src" / "cutaway" / "vocabulary.py").read_text(encoding="utf-8")
    inserted = text.replace(
        '    "inference": (',
        '    "planning": ("#123456", "", "thinks"),\n    "inference": (',
        1,
    )
    (tmp_path / "vocabulary.py").write_text(inserted, encoding="utf-8")
    # when the header is made of it
    make = runpy.run_path(str(ROOT / "native" / "vocabulary_header.py"))
    header = make["header"](tmp_path / "vocabulary.py")
    # then every id is the place of its name, counted from 1
    listed = re.search(r"kOperations\[\] = {(.*)};", header)
    ids = re.search(r"enum BuiltInName : uint32_t { (.*) };", header)
    assert listed is not None and ids is not None
    names = re.findall(r'"(\w+)"', listed[1])
    numbers = {
        name: int(number) for name, number in re.findall(r"k(\w+) = (\d+)", ids[1])
    }
    assert numbers.pop("BuiltInNames") == len(names) == len(vocabulary.OPERATIONS) + 1
    assert numbers == {
        f"{name.capitalize()}Name": number for number, name in enumerate(names, 1)
    }


def test_no_id_of_an_operation_is_written_by_hand() -> None:
    written = re.compile(
        r"k(BuiltInNames|Simulation|Inference|Backpropagation|Evaluation|Checkpoint)(Name)? = \d"
    )
    assert [
        p.name
        for p in CODE
        if p.suffix != ".py" and written.search(p.read_text(encoding="utf-8"))
    ] == []


def test_what_python_reads_is_what_cpp_wrote(tmp_path: Path) -> None:
    # given the sizes that the compiler asserts
    header = tmp_path / "vocabulary.h"
    subprocess.run(
        [sys.executable, ROOT / "native" / "vocabulary_header.py", header], check=True
    )
    sizes = dict(
        re.findall(r"sizeof\((\w+)\) == (\d+)", header.read_text(encoding="utf-8"))
    )
    # then they are those of the dtypes
    dtypes = {
        "Record": fmt.RECORD_DTYPE,
        "BlockHead": fmt.BLOCK_HEAD_DTYPE,
        "DeviceRecord": fmt.DEVICE_DTYPE,
    }
    dtypes |= {
        "ApiRecord": fmt.API_DTYPE,
        "Row": fmt.EVENT_DTYPE,
        "Source": fmt.SOURCE_DTYPE,
    }
    assert {name: dtype.itemsize for name, dtype in dtypes.items()} == {
        name: int(sizes[name]) for name in dtypes
    }
    assert len(vocabulary.REASONS) == len(vocabulary.numbers(vocabulary.Why))


def test_the_vocabulary_costs_the_traced_process_no_import() -> None:
    imports = "import sys; before = set(sys.modules); import cutaway.vocabulary; print(*set(sys.modules) - before)"
    done = subprocess.run(
        [sys.executable, "-c", f"import cutaway; {imports}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["cutaway.vocabulary"]
