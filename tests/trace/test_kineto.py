"""Traces of torch.profiler: exact values of an independent computation, and the rules behind them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign import COUNTS, ORACLE, TIMES, differences, imported, of_format
from oracle_figures import figures

import cutaway
from cutaway.trace.imports import import_files
from cutaway.trace.reader import read_run
from cutaway.vocabulary import Kind

pytestmark = pytest.mark.core

MORE = [
    *(
        "gpu_span_ns",
        "gpu_idle_in_gpu_span_ns",
        "cpu_op_ns",
        "cuda_api_ns",
        "cpu_op_or_api_ns",
        "python_union_ns",
    ),
    *(
        "sum_kernel_ns",
        "cpuop_vs_gpu",
        "comm_kernel_union_ns",
        "n_comm_kernels",
        "n_streams",
        "n_python",
    ),
    *(
        "n_user_annotation",
        "n_gpu_user_annotation",
        "gpu_with_corr",
        "gpu_with_corr_in_api",
        "max_gpu_per_corr",
    ),
    *(
        "gpu_with_external_id",
        "cpu_threads",
        "devices",
        "negative_dur",
        "events",
        "x_by_cat",
        "format",
    ),
]


@pytest.mark.parametrize("name", of_format("kineto"))
def test_all_values_are_exactly_those_of_the_oracle(name: str, tmp_path: Path) -> None:
    found = figures(cutaway.open(imported(name, tmp_path)))
    assert differences(name, found, TIMES + COUNTS + MORE) == {}
    expected = ORACLE[name]
    assert found["unattributed"] == expected["n_gpu"] - expected["gpu_with_corr_in_api"]


def write(path: Path, events: list[dict[str, Any]], **about: Any) -> Path:
    text = json.dumps({"schemaVersion": 1, **about, "traceEvents": events})
    path.write_bytes(
        gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode()
    )
    return path


def event(cat: str, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    where = (
        {"pid": 0, "tid": 7}
        if cat in ("kernel", "gpu_memcpy")
        else {"pid": 50, "tid": 51}
    )
    return {
        "ph": "X",
        "cat": cat,
        "name": name,
        "ts": ts,
        "dur": dur,
        **where,
        "args": args,
    }


LAUNCH = [
    event("user_annotation", "inference", 10, 80),
    event("cpu_op", "aten::mm", 20, 40),
    event("cuda_runtime", "cudaLaunchKernel", 30, 5, correlation=7),
    event(
        "kernel",
        "gemm",
        100,
        10,
        correlation=7,
        device=0,
        stream=7,
        grid=[4, 2, 1],
        block=[128, 1, 1],
    ),
]


def test_device_work_belongs_to_the_operation_that_launched_it(tmp_path: Path) -> None:
    import_files([write(tmp_path / "t.json", LAUNCH)], tmp_path / "r.cutaway")
    kernels = cutaway.open(tmp_path / "r.cutaway").kernels()
    assert [(row["operation"], row["name"], row["ns"]) for row in kernels] == [
        ("inference", "gemm", 10_000)
    ]


def test_nanoseconds_survive_although_they_do_not_fit_a_float(tmp_path: Path) -> None:
    events = (
        '{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":1234567890123456.789,"dur":0.001},'
        '{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":1234567890123456.790,"dur":1e-3}'
    )
    text = f'{{"baseTimeNanoseconds": 1000000000000000001, "traceEvents": [{events}]}}'
    (tmp_path / "t.json").write_text(text)
    import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")
    process = read_run(tmp_path / "r.cutaway").processes[0]
    calls = np.concatenate(list(process.records(0)))
    base = 1000000000000000001 + 1234567890123456789
    assert calls["time"][1:3].tolist() == [base, base + 1]
    assert calls["value"][1:3].tolist() == [1, 1]


def test_calls_that_overlap_without_nesting_lose_no_time_and_no_count(
    tmp_path: Path,
) -> None:
    events = [
        event("cpu_op", "a", 0, 10),
        event("cpu_op", "b", 5, 10),
        event("cpu_op", "c", 6, 2),
    ]
    import_files([write(tmp_path / "t.json", events)], tmp_path / "r.cutaway")
    summary = cutaway.open(tmp_path / "r.cutaway").summary()
    assert (summary["n_cpu_op"], summary["cpu_op_ns"], summary["cpu_threads"]) == (
        3,
        15_000,
        1,
    )


def test_call_sites_come_from_python_frames(tmp_path: Path) -> None:
    frame = event("python_function", "train.py(42): act", 15, 60)
    import_files([write(tmp_path / "t.json", [frame, *LAUNCH])], tmp_path / "r.cutaway")
    process = read_run(tmp_path / "r.cutaway").processes[0]
    assert [(c.fn, c.file, c.line, c.func) for c in process.log.calls.values()] == [
        ("aten::mm", "train.py", 42, "act")
    ]


def test_profiler_steps_are_iterations_and_not_operations(tmp_path: Path) -> None:
    steps = [
        event("user_annotation", f"ProfilerStep#{i}", 100 * i, 100) for i in (3, 4, 5)
    ]
    import_files(
        [write(tmp_path / "t.json", [*steps, *LAUNCH])], tmp_path / "r.cutaway"
    )
    run = cutaway.open(tmp_path / "r.cutaway")
    assert run.iterations()["iteration"].tolist() == [3, 4, 5]
    assert run.operations()["operation"].tolist() == ["inference"]


def test_steps_of_old_files_are_operators_and_iterations(tmp_path: Path) -> None:
    steps = [event("Operator", f"ProfilerStep#{i}", 100 * i, 100) for i in (3, 4, 5)]
    import_files(
        [write(tmp_path / "t.json", [*steps, *LAUNCH])], tmp_path / "r.cutaway"
    )
    run = cutaway.open(tmp_path / "r.cutaway")
    assert run.iterations()["iteration"].tolist() == [3, 4, 5]
    assert run.summary()["n_cpu_op"] == 4


def test_several_files_are_processes_of_one_run_and_may_share_ids(
    tmp_path: Path,
) -> None:
    files = [
        write(
            tmp_path / f"rank{rank}.json.gz",
            LAUNCH,
            distributedInfo={"rank": rank, "world_size": 2},
        )
        for rank in range(2)
    ]
    import_files(files, tmp_path / "r.cutaway")
    run = cutaway.open(tmp_path / "r.cutaway")
    assert run.processes()["name"].tolist() == ["rank 0 of 2", "rank 1 of 2"]
    assert run.summary()["unattributed"] == 0


def test_categories_of_old_files_are_known(tmp_path: Path) -> None:
    old = {"cpu_op": "Operator", "cuda_runtime": "Runtime", "kernel": "Kernel"}
    events = [{**e, "cat": old.get(e["cat"], e["cat"])} for e in LAUNCH]
    import_files([write(tmp_path / "t.json", events)], tmp_path / "r.cutaway")
    summary = cutaway.open(tmp_path / "r.cutaway").summary()
    assert (summary["n_kernel"], summary["n_api"], summary["n_cpu_op"]) == (1, 1, 1)


def test_a_plain_list_of_events_is_a_trace_too(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text(json.dumps(LAUNCH))
    import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")
    assert cutaway.open(tmp_path / "r.cutaway").summary()["n_gpu"] == 1


def test_threads_whose_ids_are_texts_keep_their_names(tmp_path: Path) -> None:
    told = {
        "ph": "M",
        "name": "thread_name",
        "pid": 1,
        "tid": "worker",
        "args": {"name": "Loader"},
    }
    call = {"ph": "X", "cat": "cpu_op", "pid": 1, "ts": 1, "dur": 2}
    events = [{"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": "nobody"}, told]
    events += [
        {**call, "tid": "worker", "name": "load"},
        {**call, "tid": "other", "name": "think"},
    ]
    (tmp_path / "t.json").write_text(json.dumps(events))
    import_files([tmp_path / "t.json"], tmp_path / "r.cutaway")
    (process,) = read_run(tmp_path / "r.cutaway").processes
    (loader,) = [
        id for id, thread in process.log.threads.items() if thread.name == "Loader"
    ]
    (block,) = process.events(loader, kinds=[Kind.CALL])
    assert process.log.calls[int(block["id"][0])].fn == "load"
