"""Files that mean harm or are broken: one sentence, bounded memory, nothing left behind, never a traceback."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cutaway
from cutaway import _imports
from cutaway.errors import CutawayError
from cutaway.trace.imports import Limits, import_files
from cutaway.trace.imports.recorded import Item
from effort import effort

pytestmark = pytest.mark.core

GOOD = '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1.5,"dur":2}'


def refused(path: Path, limits: Limits | None = None) -> str:
    """The sentence with which a file is refused; the run must not exist afterwards."""
    run = path.parent / "r.cutaway"
    with pytest.raises(CutawayError) as caught:
        import_files([path], run, limits)
    assert not run.exists()
    sentence = str(caught.value)
    assert "\n" not in sentence and len(sentence) < 400
    return sentence


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"hello", "not a trace"),
        (b"{", "ends in the middle"),
        (b'{"traceEvents": [' + GOOD.encode(), "ends in the middle"),
        (b'{"traceEvents": [' + GOOD.encode() + b"]} trailing", "follows the end"),
        (b'{"traceEvents": [}', "value is missing"),
        (b'{"traceEvents": [' + GOOD.encode() + b" " + GOOD.encode() + b"]}", "comma"),
        (b'{"traceEvents" 5}', "colon"),
        (b'{"traceEvents": 5}', "no profiler events"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 100_000, "nested deeper"),
        (b'{"traceEvents": [{"ts": ' + b"9" * 1000 + b"}]}", "too long"),
        (b'{"traceEvents": [{"ts": bogus}]}', "no JSON value"),
        (b'{"rocprofiler-sdk-tool": []}', "does not name its process"),
        (b'{"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}}]}', "no records"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "XPlane"),
        (b"\x0a\x00", "no host or device events"),
        (b"\x1f\x8b" + b"junk" * 100, "gzip"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-20], "cut off"),
        (gzip.compress(f"[{GOOD}]".encode(), mtime=0)[:-4], "cut off"),
    ],
)
def test_broken_files_end_in_one_sentence(
    content: bytes, word: str, tmp_path: Path
) -> None:
    path = tmp_path / "trace"
    path.write_bytes(content)
    assert word in refused(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / "nowhere.json")
    assert "folder" in refused(tmp_path / ".")


def test_an_existing_run_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(f"[{GOOD}]")
    (tmp_path / "r.cutaway").mkdir()
    with pytest.raises(CutawayError, match="already exists"):
        import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gzip file that unpacks to 120 megabytes of one string in an otherwise fine trace."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.json.gz"
    packer = zlib.compressobj(6, wbits=31)
    with path.open("wb") as file:
        file.write(packer.compress(b'{"note": "'))
        for _ in range(120):
            file.write(packer.compress(b"A" * (1 << 20)))
        file.write(
            packer.compress(f'", "traceEvents": [{GOOD}]}}'.encode()) + packer.flush()
        )
    return path


def test_a_gzip_bomb_is_refused_by_its_ratio_and_by_its_size(bomb: Path) -> None:
    assert "--max-ratio" in refused(bomb)
    assert "--max-size" in refused(bomb, Limits(ratio=10_000, size=100 << 20))


def test_a_string_of_120_megabytes_costs_no_memory(bomb: Path, tmp_path: Path) -> None:
    program = (
        "import resource, sys; from pathlib import Path; from cutaway.trace.imports import Limits, import_files\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "import_files([Path(sys.argv[1])], Path(sys.argv[2]), Limits(ratio=10_000))\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    words = [sys.executable, "-c", program, str(bomb), str(tmp_path / "r.cutaway")]
    grown = int(
        subprocess.run(words, check=True, capture_output=True, text=True).stdout
    )
    assert grown < 64 << 10, "kilobytes"
    assert cutaway.open(tmp_path / "r.cutaway").summary()["n_cpu_op"] == 1


def test_limits_on_events_and_names_hold(tmp_path: Path) -> None:
    events = ",".join(GOOD.replace('"a"', f'"{i}"') for i in range(150_000))
    (tmp_path / "t.json").write_text(f"[{events}]")
    assert "--max-events" in refused(tmp_path / "t.json", Limits(events=100_000))
    assert "distinct names" in refused(tmp_path / "t.json", Limits(names=1 << 20))


def test_odd_values_are_counted_and_the_rest_is_kept(tmp_path: Path) -> None:
    odd = [
        '"ts":NaN,"dur":1',
        '"ts":1,"dur":Infinity',
        '"ts":"1","dur":1',
        '"ts":[1],"dur":1',
        '"ts":-5,"dur":1',
        '"ts":1e30,"dur":1',
        '"dur":1',
        '"ts":4611686018427387904,"dur":4611686018427387904',
    ]
    events = [
        f'{{"ph":"X","cat":"cpu_op","name":"x","pid":1,"tid":1,{times}}}'
        for times in odd
    ]
    negative = '{"ph":"X","cat":"cpu_op","name":"n","pid":1,"tid":1,"ts":3,"dur":-2}'
    (tmp_path / "t.json").write_text(f"[{','.join([GOOD, negative, *events])}]")
    import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")
    run = cutaway.open(tmp_path / "r.cutaway")
    summary = run.summary()
    assert (summary["n_cpu_op"], summary["cpu_op_ns"], summary["negative_dur"]) == (
        2,
        2000,
        1,
    )
    assert int(run.processes()["lost"][0]) == len(odd)


def test_names_of_any_bytes_and_any_length_are_kept_readable(tmp_path: Path) -> None:
    name = rb"\u00e9\ud83d\ude00\ud800 " + b"\xff" + rb"\n" + b"z" * 10_000
    (tmp_path / "t.json").write_bytes(
        b"[" + GOOD.encode().replace(b'"a"', b'"' + name + b'"') + b"]"
    )
    import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")
    (call,) = cutaway.open(tmp_path / "r.cutaway").trace.processes[0].log.calls.values()
    assert call.fn.startswith("é😀\ufffd \ufffd\nzzz") and len(call.fn) < 4200


def test_a_staircase_of_overlaps_and_a_deep_pit_are_bounded() -> None:
    n = 5000
    start = np.arange(n, dtype=np.int64)
    item = np.full(n, Item.CALL, np.uint8)
    name = np.ones(n, np.uint32)
    stairs = _imports.nest(start, start + 10_000, item, name)
    pit = _imports.nest(start, 20_000 - start, item, name)
    for nested in (stairs, pit):
        kept = sum(
            int(np.isin(kind, (1, 2)).sum()) for _, _, kind, _ in nested["lanes"]
        )
        assert kept + nested["dropped"] == n
        assert len(nested["lanes"]) <= 64
    assert pit["dropped"] == 0


@settings(max_examples=effort(80, 25))
@given(
    head=st.sampled_from(
        [
            b"",
            b"{",
            b"[",
            b'{"traceEvents":[',
            b"\x0a",
            b"SQLite format 3\0",
            b"\x1f\x8b\x08",
        ]
    ),
    body=st.binary(max_size=400),
)
def test_random_bytes_never_end_in_a_traceback(
    head: bytes, body: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "random"
    path.write_bytes(head + body)
    refused(path)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=5,
)
KEYS = ("ph", "cat", "name", "pid", "tid", "ts", "dur", "args")
EVENTS = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, VALUES)).map(
        lambda event: {"ph": "X", "cat": "kernel", "ts": 1, "dur": 1, **event}
    ),
    max_size=5,
)


@settings(max_examples=effort(80, 25))
@given(events=EVENTS, base=VALUES)
def test_values_of_wrong_types_never_end_in_a_traceback(
    events: list[object], base: object, tmp_path: Path
) -> None:
    import shutil

    shutil.rmtree(tmp_path / "r.cutaway", ignore_errors=True)
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": events, "baseTimeNanoseconds": base}))
    try:
        import_files([path], tmp_path / "r.cutaway")
    except CutawayError:
        return
    cutaway.open(tmp_path / "r.cutaway").processes()


def test_the_command_prints_the_sentence_and_exits_1(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("{")
    words = [
        sys.executable,
        "-m",
        "cutaway",
        "import",
        str(tmp_path / "t.json"),
        "-o",
        str(tmp_path / "r"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "Traceback" not in done.stderr
