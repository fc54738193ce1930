"""Exports hold every event of a run, at its time, properly nested."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest
from foreign import HERE

import cutaway
from cutaway.analysis.exports import export
from cutaway.errors import CutawayError
from cutaway.trace.imports import import_files
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

KINETO = HERE / "traces" / "kineto_hta"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks, the second with a graph launch that owns 544 kernels."""
    folder = tmp_path_factory.mktemp("exports")
    files = [
        KINETO / "hta_gpu_user_annotation.json.gz",
        HERE / "traces/tracelens/tl_sglang_decode.json.gz",
    ]
    import_files(files, folder / "r.cutaway")
    return folder / "r.cutaway"


def mis_nested(path: Path) -> Path:
    """Two operations that end in the wrong order."""
    with RunWriter(path) as writer:
        process = writer.process(pid=9, name="main")
        a, b = process.name("simulation"), process.name("inference")
        kinds = [
            Kind.BEGIN,
            Kind.OP_ENTER,
            Kind.OP_ENTER,
            Kind.OP_EXIT,
            Kind.OP_EXIT,
            Kind.END,
        ]
        process.thread(tid=1, name="main").write(
            [10, 10, 20, 30, 40, 50], 0, kinds, [0, a, b, a, b, 0]
        )
        process.exit(code=0, t=50)
    return path


def chrome(run: Path, folder: Path) -> list[dict[str, Any]]:
    export(run, "chrome", folder / "out.json")
    told = json.loads((folder / "out.json").read_text(), parse_float=Decimal)
    base = told["baseTimeNanoseconds"]
    for event in told["traceEvents"]:
        event["ns"] = base + int(event.get("ts", 0) * 1000)
    return list(told["traceEvents"])


def slices(events: list[dict[str, Any]]) -> Counter[tuple[Any, ...]]:
    """(process, name, start, end) of every slice; beginnings and ends must match on each row."""
    open_ones: dict[tuple[int, int], list[dict[str, Any]]] = {}
    found: Counter[tuple[Any, ...]] = Counter()
    for event in events:
        row = open_ones.setdefault((event["pid"], event["tid"]), [])
        if event["ph"] == "B":
            row.append(event)
        elif event["ph"] == "E":
            begun = row.pop()
            found[event["pid"], begun["name"], begun["ns"], event["ns"]] += 1
    assert not any(open_ones.values())
    return found


def test_chrome_holds_every_call_and_piece_of_work_at_its_nanosecond(
    run: Path, tmp_path: Path
) -> None:
    found = slices(chrome(run, tmp_path))
    for process in read_run(run).processes:
        for records in (process.api(), process.device()):
            for record in records:
                name = process.log.name(int(record["name"]))
                assert (
                    found[process.pid, name, int(record["start"]), int(record["end"])]
                    > 0
                )
        for thread in process.threads:
            block = np.concatenate(list(process.records(thread)))
            for record in block[(block["tag"] & 0xFF) == Kind.CALL]:
                fn = process.log.calls[int(record["tag"]) >> 8].fn
                start = int(record["time"])
                assert found[process.pid, fn, start, start + int(record["value"])] > 0


def test_every_attributed_piece_of_work_has_one_flow_from_its_launch(
    run: Path, tmp_path: Path
) -> None:
    events = chrome(run, tmp_path)
    starts = {event["id"]: event["ns"] for event in events if event["ph"] == "s"}
    ends = {event["id"]: event["ns"] for event in events if event["ph"] == "f"}
    assert len(starts) == 140 + 558 and starts.keys() == ends.keys()
    assert Counter(starts.values()).most_common(1)[0][1] == 544


def test_opentelemetry_names_stand_beside_ours(tmp_path: Path) -> None:
    events = chrome(mis_nested(tmp_path / "r.cutaway"), tmp_path)
    names = {
        event["name"]: event["args"]["opentelemetry"]
        for event in events
        if event["ph"] == "B"
    }
    assert names == {"simulation": "rl.sample", "inference": "rl.sample"}


def test_speedscope_closes_what_it_opens_in_order(run: Path, tmp_path: Path) -> None:
    for index, source in enumerate((run, mis_nested(tmp_path / "m.cutaway"))):
        count = export(source, "speedscope", tmp_path / f"{index}.json")
        told = json.loads((tmp_path / f"{index}.json").read_text())
        frames = told["shared"]["frames"]
        opened = 0
        for profile in told["profiles"]:
            if profile["type"] == "sampled":
                continue
            stack: list[int] = []
            last = profile["startValue"]
            for event in profile["events"]:
                assert event["at"] >= last and frames[event["frame"]]["name"]
                last = event["at"]
                if event["type"] == "O":
                    stack.append(event["frame"])
                    opened += 1
                else:
                    assert stack.pop() == event["frame"]
            assert not stack and profile["endValue"] >= last
        assert opened == count + index  # the mis-nested operation is split once


def test_speedscope_has_all_time_by_stack(run: Path, tmp_path: Path) -> None:
    export(run, "speedscope", tmp_path / "out.json")
    told = json.loads((tmp_path / "out.json").read_text())
    graphs = [profile for profile in told["profiles"] if profile["type"] == "sampled"]
    expected = cutaway.open(run).breakdown(by="process")
    assert sorted(graph["endValue"] for graph in graphs) == sorted(
        n for n in expected["ns"].tolist() if n
    )
    names = [frame["name"] for frame in told["shared"]["frames"]]
    for graph in graphs:
        assert sum(graph["weights"]) == graph["endValue"] and len(
            graph["weights"]
        ) == len(graph["samples"])
        assert all(names[frame] for stack in graph["samples"] for frame in stack)


def test_parquet_has_every_table_and_every_event(run: Path, tmp_path: Path) -> None:
    rows = export(run, "parquet", tmp_path / "out")
    names = {path.stem for path in (tmp_path / "out").iterdir()}
    assert names >= {"events", "cells", "kernels", "operations", "processes"}
    sql = f"SELECT count(*), count(*) FILTER (type = 'begin') FROM '{tmp_path}/out/events.parquet'"
    total, begun = duckdb.sql(sql).fetchall()[0]
    assert total == rows
    assert begun == sum(slices(chrome(run, tmp_path)).values())
    columns = duckdb.sql(
        f"DESCRIBE SELECT * FROM '{tmp_path}/out/operations.parquet'"
    ).fetchall()
    assert "opentelemetry" in [column[0] for column in columns]


@pytest.mark.parametrize("format", ["perfetto", "chrome", "speedscope", "parquet"])
def test_nothing_is_overwritten_and_nothing_half_written_is_left(
    format: str, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "there").write_text("mine")
    with pytest.raises(CutawayError, match="already exists"):
        export(run, format, tmp_path / "there")
    with pytest.raises(CutawayError, match="cannot be written"):
        export(run, format, tmp_path / "there" / "below")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_the_command_says_where_the_file_opens(run: Path, tmp_path: Path) -> None:
    words = [
        sys.executable,
        "-m",
        "cutaway",
        "export",
        str(run),
        "-f",
        "perfetto",
        "-o",
        str(tmp_path / "o"),
    ]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert "perfetto.dev" in done.stdout and (tmp_path / "o").stat().st_size > 10_000
