"""XPlane files of JAX and TensorFlow: exact to the picosecond."""

from __future__ import annotations

from pathlib import Path

import pytest
from foreign import HERE, ORACLE, imported, of_format

import cutaway
from cutaway.trace.imports import import_files

pytestmark = pytest.mark.core


@pytest.mark.parametrize("name", of_format("xplane"))
def test_every_device_is_busy_as_long_as_the_oracle_says(
    name: str, tmp_path: Path
) -> None:
    found = cutaway.open(imported(name, tmp_path)).summary()["device_busy_ps"]
    expected = {
        plane: {key: value[key] for key in ("lines", "n", "busy_ps", "span_ps")}
        for plane, value in ORACLE[name]["device_busy_ps"].items()
    }
    assert found == expected


def test_launches_of_a_gpu_are_found_and_python_frames_are_call_sites(
    tmp_path: Path,
) -> None:
    file = HERE / "traces" / "xplane" / "tl_mi300_jax_conv08.xplane.pb"
    import_files([file], tmp_path / "r.cutaway")
    run = cutaway.open(tmp_path / "r.cutaway")
    summary = run.summary()
    assert summary["unattributed"] == 0
    assert (summary["n_gpu"], summary["n_api"]) == (235, 234)
    sites = {
        (c.file, c.func)
        for p in run.trace.processes
        for c in p.log.calls.values()
        if c.file
    }
    assert sites == {
        ("api.py", "try_to_block"),
        ("profiler.py", "wrapper"),
        ("pxla.py", "batched_device_put"),
    }


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def test_step_numbers_are_iterations_and_known_names_are_operations(
    tmp_path: Path,
) -> None:
    events = [(1, 0, 1000, 5), (2, 100, 500, None), (1, 1000, 1000, 6)]
    line = field(1, 42) + field(2, b"python") + field(3, 1_000_000)
    for metadata, offset_ns, length_ns, step in events:
        stat = b"" if step is None else field(4, field(1, 9) + field(4, step))
        told = (
            field(1, metadata) + field(2, offset_ns * 1000) + field(3, length_ns * 1000)
        )
        line += field(4, told + stat)
    names = {1: b"train", 2: b"inference"}
    plane = field(2, b"/host:CPU") + field(3, line)
    for key, name in names.items():
        plane += field(4, field(1, key) + field(2, field(1, key) + field(2, name)))
    plane += field(5, field(1, 9) + field(2, field(1, 9) + field(2, b"step_num")))
    (tmp_path / "t.xplane.pb").write_bytes(field(1, plane))
    import_files([tmp_path / "t.xplane.pb"], tmp_path / "r.cutaway")
    run = cutaway.open(tmp_path / "r.cutaway")
    assert run.iterations()["iteration"].tolist() == [5, 6]
    assert [(row["operation"], row["total_ns"]) for row in run.operations()] == [
        ("inference", 500)
    ]
