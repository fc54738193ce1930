"""The tables of a run whose every number was worked out by hand (see `analysis_runs`)."""

import numpy as np
import pytest
from analysis_runs import write_demo

import cutaway
from cutaway.calibration.costs import Cost, Costs
from cutaway.errors import CutawayError
from cutaway.trace.format import API_DTYPE, DEVICE_DTYPE
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import DeviceKind, Kind

pytestmark = pytest.mark.core


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return cutaway.open(write_demo(tmp_path_factory.mktemp("demo") / "demo.cutaway"))


def cells(table, *by):
    return {tuple(row[name] for name in by): row["ns"] for row in table if row["ns"]}


def small(folder, rows, **process):
    """A run of one process and thread with these records; calls 1 to 3 are backend, simulator, wait."""
    writer = RunWriter(folder)
    p = writer.process(**{"pid": 1, **process})
    for layer in ("backend", "simulator", "wait"):
        p.call(layer=layer, fn=layer)
    for name in ("outer", "inner"):
        p.name(name)
    thread = p.thread(tid=1)
    if rows:
        thread.write(*np.array(rows).T)
    return writer, p


def test_breakdown_of_the_learner(run):
    table = run.breakdown(by=["process", "operation", "layer", "resource"]).where(
        process=0
    )
    assert cells(table, "operation", "layer", "resource") == {
        ("simulation", "python", "cpu"): 60,
        ("simulation", "wait", "idle"): 1140,
        ("inference", "python", "cpu"): 180,
        ("inference", "python", "cpu+gpu"): 120,
        ("inference", "backend", "cpu"): 120,
        ("inference", "backend", "cpu+gpu"): 120,
        ("inference", "accelerator_api", "cpu"): 60,
        ("backpropagation", "python", "cpu"): 120,
        ("backpropagation", "backend", "cpu"): 300,
        ("backpropagation", "accelerator_api", "cpu"): 30,
        ("backpropagation", "accelerator_api", "gpu"): 600,
        ("backpropagation", "accelerator_api", "idle"): 150,
    }


@pytest.mark.parametrize(
    "by",
    [
        ["process"],
        ["process", "layer"],
        ["operation"],
        ["phase", "resource"],
        ["iteration"],
    ],
)
def test_whatever_it_is_divided_by_the_cells_add_up_to_the_spans(run, by):
    assert (
        run.breakdown(by=by)["ns"].sum() == 3 * 3000
    )  # three processes, the helper thread beside them


def test_helper_threads_are_listed_but_never_added(run):
    assert cells(run.breakdown(by=["thread"]), "thread") == {
        (0,): 3000,
        (1,): 50,
        (2,): 3000,
        (3,): 3000,
    }


def test_per_iteration_values(run):
    table = run.breakdown(by=["process", "operation"]).where(
        process=0, operation="inference"
    )
    assert table["per_iteration_ns"].tolist() == [200.0]


def test_time_by_iteration(run):
    table = run.breakdown(by=["process", "iteration"])
    assert cells(table, "process", "iteration") == {
        (p, i): 1000 for p in range(3) for i in (1, 2, 3)
    }
    assert set(run.steady().breakdown(by=["iteration"])["iteration"]) == {2, 3}
    assert run.startup().breakdown(by=["iteration"])["ns"].tolist() == [3000]


def test_start_up_and_steady_state_are_apart_and_together_the_whole(run):
    parts = [
        cells(r.breakdown(by=["process"]), "process")
        for r in (run.startup(), run.steady())
    ]
    assert parts == [
        {(0,): 1000, (1,): 1000, (2,): 1000},
        {(0,): 2000, (1,): 2000, (2,): 2000},
    ]
    assert run.steady().kernels()["count"].tolist() == [2, 2]
    assert run.startup().operations()["count"].tolist() == [1] * 5


def test_without_iterations_everything_is_steady(tmp_path):
    writer, _ = small(
        tmp_path / "r", [(0, 0, Kind.OP_ENTER, 1), (10, 0, Kind.OP_EXIT, 1)]
    )
    writer.close()
    run = cutaway.open(tmp_path / "r")
    assert run.steady().breakdown()["ns"].sum() == 10
    assert len(run.startup().breakdown()) == 0


def test_one_dimension_needs_no_list(run):
    assert run.breakdown("operation") == run.breakdown(by=["operation"])


def test_an_unknown_dimension_is_refused_in_one_sentence(run):
    with pytest.raises(CutawayError, match="no dimension 'colour'"):
        run.breakdown(by=["colour"])
    with pytest.raises(CutawayError, match="no view"):
        run.breakdown(view="all")


def test_correction_subtracts_where_the_cost_was_paid(run):
    corrected = cutaway.open(run.trace.path)
    corrected.costs = Costs(
        inside={"call": Cost(4, 2, 6)}, outside={"operation": Cost(10, 10, 10)}
    )
    table = corrected.breakdown(by=["process", "operation", "layer"]).where(
        process=0, operation="inference"
    )
    by_layer = {row["layer"]: row for row in table}
    assert by_layer["backend"]["raw_ns"] - by_layer["backend"]["ns"] == 3 * 4
    assert by_layer["backend"]["high_ns"] - by_layer["backend"]["low_ns"] == 3 * 4
    assert by_layer["python"]["raw_ns"] == by_layer["python"]["ns"]
    whole = corrected.breakdown(by=["process"]).where(
        process=2
    )  # 9 calls, 3 operations made from Python
    assert (whole["raw_ns"] - whole["ns"]).tolist() == [9 * 4 + 3 * 10]


def test_a_correction_larger_than_the_time_is_flagged_and_the_sums_hold(run):
    corrected = cutaway.open(run.trace.path)
    each = Cost(10**6, 10**6, 10**6)
    corrected.costs = Costs(inside={"call": each, "api_call": each})
    by_layer = corrected.breakdown(by=["process", "layer"])
    assert (by_layer["ns"] >= 0).all()
    assert (
        (by_layer["uncorrected_ns"] > 0)
        == (by_layer["raw_ns"] < by_layer["calls"] * 10**6)
    ).all()
    for cells in (
        by_layer,
        corrected.breakdown(by=["process"]),
        corrected.breakdown(by=["operation", "layer"]),
    ):
        assert (cells["ns"] - cells["uncorrected_ns"]).sum() == (
            cells["raw_ns"] - cells["calls"] * 10**6
        ).sum()


def test_a_paused_stretch_is_no_part_of_the_traced_life(tmp_path):
    rows = [
        (0, 1, Kind.ITERATION, 0), (0, 0, Kind.OP_ENTER, 1), (10, 5, Kind.CALL, 1), (100, 0, Kind.PAUSE, 1),
        (200, 7, Kind.RESUME, 1), (200, 3, Kind.ITERATION, 0), (250, 7, Kind.STEP, 0),
        (290, 0, Kind.OP_EXIT, 1), (300, 0, Kind.END, 0),
    ]  # fmt: skip
    writer, _ = small(tmp_path / "r", rows)
    writer.close()
    run = cutaway.open(tmp_path / "r")
    assert run.breakdown(by=["process"])["ns"].tolist() == [200]
    assert run.operations()["total_ns"].tolist() == [190]
    table = run.iterations()
    assert table.select("iteration", "start_ns", "end_ns", "recorded").to_dict() == {
        "iteration": [1, 2, 3],
        "start_ns": [0, 100, 200],
        "end_ns": [100, 200, 300],
        "recorded": [1.0, 0.0, 1.0],
    }


def test_iterations_with_a_pause_inside_count_by_what_was_recorded(tmp_path):
    rows = [
        (0, 1, Kind.ITERATION, 0), (0, 0, Kind.OP_ENTER, 1), (40, 0, Kind.PAUSE, 1), (60, 0, Kind.RESUME, 0),
        (100, 2, Kind.ITERATION, 0), (150, 0, Kind.PAUSE, 1), (160, 0, Kind.RESUME, 0), (170, 0, Kind.PAUSE, 1),
        (180, 0, Kind.RESUME, 0), (200, 0, Kind.OP_EXIT, 1), (200, 0, Kind.END, 0),
    ]  # fmt: skip
    writer, _ = small(tmp_path / "r", rows)
    writer.close()
    run = cutaway.open(tmp_path / "r")
    assert run.iterations()["recorded"].tolist() == [0.8, 0.8]
    # 160 recorded of 1.6 iterations.
    assert run.breakdown(by=["process"])["per_iteration_ns"].tolist() == [100.0]


def test_an_operation_left_open_ends_with_its_thread_and_misnesting_is_survived(
    tmp_path,
):
    rows = [
        (0, 0, Kind.OP_ENTER, 1), (10, 0, Kind.OP_ENTER, 2), (20, 0, Kind.OP_EXIT, 1), (50, 0, Kind.OP_EXIT, 1),
        (60, 0, Kind.END, 0),
    ]  # fmt: skip
    writer, _ = small(tmp_path / "r", rows)
    writer.close()
    table = cutaway.open(tmp_path / "r").operations()
    assert {row["operation"]: (row["total_ns"], row["self_ns"]) for row in table} == {
        "outer": (20, 10),
        "inner": (50, 50),
    }


@pytest.mark.parametrize(("count", "error"), [(500, 0), (20_000, 0.01)])
def test_quantiles_of_operations_are_exact_for_few_and_within_one_percent_for_many(
    tmp_path, count, error
):
    length = np.random.default_rng(0).lognormal(10, 2, count).astype(np.int64)
    start = np.concatenate([[0], np.cumsum(length)[:-1]])
    with RunWriter(tmp_path / "r") as writer:
        p = writer.process(pid=1)
        p.thread(tid=1).spans(start, start + length, ops=p.name("step"))
    row = cutaway.open(tmp_path / "r").operations().row(0)
    for column, q in (("p50_ns", 0.5), ("p95_ns", 0.95)):
        assert row[column] == pytest.approx(np.quantile(length, q), rel=error, abs=1)
    assert row["total_ns"] == length.sum()


def test_a_hundred_thousand_operations_have_a_cell_each(tmp_path):
    n = 100_000
    with RunWriter(tmp_path / "r") as writer:
        p = writer.process(pid=1)
        ids = np.array([p.name(f"operation {i}") for i in range(n)])
        time = np.arange(n) * 10
        p.thread(tid=1).spans(time, time + 7, ops=ids)
    table = cutaway.open(tmp_path / "r").breakdown(by=["operation"])
    assert len(table) == n + 1
    assert table.where(table["operation"] != "")["ns"].sum() == 7 * n


def test_device_work_belongs_to_the_operation_that_launched_it(tmp_path):
    """A launch on a thread that carries no operations counts for the one thread that is inside one; a record's
    own operation goes before; what was launched before the recording is unattributed."""
    rows = [
        (0, 0, Kind.OP_ENTER, 1),
        (100, 0, Kind.OP_EXIT, 1),
        (100, 0, Kind.OP_ENTER, 2),
        (300, 0, Kind.OP_EXIT, 2),
    ]
    writer, p = small(tmp_path / "r", rows)
    api = np.zeros(3, API_DTYPE)
    api["start"], api["end"], api["correlation"] = (
        [50, 150, 100],
        [55, 155, 105],
        [1, 2, 3],
    )
    api["os_thread"] = [1, 77, 1]
    p.api(api)
    work = np.zeros(5, DEVICE_DTYPE)
    work["start"], work["end"] = [120, 160, 180, 200, 210], [130, 165, 190, 205, 240]
    work["correlation"], work["operation"] = [1, 2, 3, 3, 99], [0, 0, 0, 1, 0]
    work["kind"] = DeviceKind.KERNEL
    p.device(work)
    writer.close()
    run = cutaway.open(tmp_path / "r")
    assert {row["operation"]: row["ns"] for row in run.device_time(layers=False)} == {
        "outer": 15,
        "inner": 15,
        "(unattributed)": 30,
    }
    assert run.summary()["unattributed"] == 1
    names = run.threads()["name"].tolist()
    assert "native thread 77" in names
    assert run.breakdown(by=["thread", "layer"]).where(thread=1)["ns"].tolist() == [5]


def test_the_second_view_counts_streams_the_thread_never_used(tmp_path):
    writer, p = small(tmp_path / "r", [(0, 100, Kind.CALL, 2)])
    p.thread(tid=2).write([0], [100], Kind.CALL, [3])
    api = np.zeros(1, API_DTYPE)
    api["start"], api["end"], api["correlation"], api["os_thread"] = 0, 0, 1, 2
    p.api(api)
    work = np.zeros(1, DEVICE_DTYPE)
    work["start"], work["end"], work["correlation"], work["kind"] = (
        20,
        50,
        1,
        DeviceKind.MEMCPY,
    )
    p.device(work)
    writer.close()
    run = cutaway.open(tmp_path / "r")
    own = cells(run.breakdown(by=["thread", "resource"]), "thread", "resource")
    every = cells(
        run.breakdown(by=["thread", "resource"], view="process"), "thread", "resource"
    )
    assert own == {(0, "cpu"): 100, (1, "idle"): 70, (1, "gpu"): 30}
    assert every == {
        (0, "cpu"): 70,
        (0, "cpu+gpu"): 30,
        (1, "idle"): 70,
        (1, "gpu"): 30,
    }
    assert run.utilisation()["device_busy_all_waiting_ns"] == 0


def test_of_two_threads_with_one_correlation_id_the_earlier_call_launched(tmp_path):
    writer, p = small(tmp_path / "r", [(0, 100, Kind.CALL, 2)])
    p.thread(tid=2).write([0], [100], Kind.CALL, [3])
    api = np.zeros(2, API_DTYPE)  # in the file the later one comes first
    api["start"], api["end"], api["correlation"], api["os_thread"] = (
        [10, 5],
        [10, 5],
        1,
        [2, 1],
    )
    p.api(api)
    work = np.zeros(1, DEVICE_DTYPE)
    work["start"], work["end"], work["correlation"], work["kind"] = (
        20,
        50,
        1,
        DeviceKind.MEMCPY,
    )
    p.device(work)
    writer.close()
    run = cutaway.open(tmp_path / "r")
    own = cells(run.breakdown(by=["thread", "resource"]), "thread", "resource")
    assert {thread for thread, resource in own if "gpu" in resource} == {0}
    assert run.launched_work()["thread"].tolist() == [0]


def test_who_waits_for_whom(run):
    table = run.waits()
    assert {(row["process"], row["for_process"]): row["ns"] for row in table} == {
        (0, 1): 570,
        (0, 2): 570,
        (1, 0): 2430,
        (2, 0): 1860,
    }


def test_socket_ends_are_matched_by_their_peer_and_nothing_else_by_family(tmp_path):
    with RunWriter(tmp_path / "r") as writer:
        for pid, ppid, on in (
            (1, 0, "socket:10"),
            (2, 1, "socket:20"),
            (3, 1, "sem:/x"),
        ):
            p = writer.process(pid=pid, ppid=ppid, role="actor" if ppid else "learner")
            peer = {"socket:10": "socket:20", "socket:20": "socket:10"}.get(on)
            fields = {"id": 1, "layer": "wait", "fn": "recv", "on": on}
            p.log("call", fields if peer is None else {**fields, "peer": peer})
            p.thread(tid=pid).write([0], [10 * pid], Kind.CALL, [1])
    run = cutaway.open(tmp_path / "r")
    assert {row["on"]: row["for_process"] for row in run.waits()} == {
        "socket:10": 1,
        "socket:20": 0,
        "sem:/x": -1,
    }


def test_loopback_addresses_mean_their_own_host_and_others_mean_the_same_everywhere(
    tmp_path,
):
    ends = (
        (1, "a", "tcp:127.0.0.1:5>127.0.0.1:6", "tcp:127.0.0.1:6>127.0.0.1:5"),
        (2, "b", "tcp:127.0.0.1:6>127.0.0.1:5", "tcp:127.0.0.1:5>127.0.0.1:6"),
        (3, "a", "tcp:10.0.0.1:5>10.0.0.2:6", "tcp:10.0.0.2:6>10.0.0.1:5"),
        (4, "b", "tcp:10.0.0.2:6>10.0.0.1:5", "tcp:10.0.0.1:5>10.0.0.2:6"),
    )
    with RunWriter(tmp_path / "r") as writer:
        for pid, host, on, peer in ends:
            p = writer.process(pid=pid, ppid=0, host=host)
            p.log(
                "call", {"id": 1, "layer": "wait", "fn": "recv", "on": on, "peer": peer}
            )
            p.thread(tid=pid).write([0], [10], Kind.CALL, [1])
    waits = cutaway.open(tmp_path / "r").waits()
    assert {row["process"]: row["for_process"] for row in waits} == {
        0: -1,
        1: -1,
        2: 3,
        3: 2,
    }


def test_the_slowest_sibling_is_a_straggler(run):
    assert run.stragglers().select("process", "behind").to_dict() == {
        "process": [2, 1],
        "behind": [2.0, 0.5],
    }


def test_nvidia_smi_shows_a_device_as_busy_that_hardly_works(tmp_path):
    second = 10**9
    writer, p = small(
        tmp_path / "r", [(0, 0, Kind.BEGIN, 0), (4 * second, 0, Kind.END, 0)]
    )
    work = np.zeros(24, DEVICE_DTYPE)
    work["start"] = np.arange(24) * (second // 6) + 1000
    work["end"] = work["start"] + second // 1000
    work["kind"] = DeviceKind.KERNEL
    p.device(work[:12])
    writer.close()
    device = cutaway.open(tmp_path / "r").utilisation()["devices"]["0"]
    assert device["busy"] == pytest.approx(0.003)
    assert device["nvidia_smi"]["1 s"] == 0.5
    assert device["nvidia_smi"]["1/6 s"] == pytest.approx(0.5, abs=0.03)


def test_utilisation_of_cores_comes_from_the_meters(run):
    found = run.utilisation()
    assert (found["cpu_ns"], found["runqueue_ns"], found["cores_busy"]) == (
        1500,
        300,
        0.5,
    )
    assert found["device_busy_ns"] == 840
    assert found["device_busy_all_waiting_ns"] == 600


def test_start_up_and_steady_state_share_out_what_the_machine_did(run):
    whole, early, late = (
        run.utilisation(),
        run.startup().utilisation(),
        run.steady().utilisation(),
    )
    assert (early["span_ns"], late["span_ns"]) == (1000, 2000)
    for key in ("device_busy_ns", "device_busy_all_waiting_ns"):
        assert (early[key], late[key]) == (whole[key] // 3, 2 * whole[key] // 3)
    for one, other, both in zip(
        early["processes"], late["processes"], whole["processes"], strict=True
    ):
        assert (
            one["all_waiting_ns"] + other["all_waiting_ns"]
            == both["all_waiting_ns"]
            > 0
        )
    assert early["devices"]["0"]["busy_ns"] + late["devices"]["0"]["busy_ns"] == 840
    assert (
        early["threads_executing"] + 2 * late["threads_executing"]
        == 3 * whole["threads_executing"]
    )


def test_meters_of_a_part_are_those_sampled_in_it(run):
    assert run.samples()["t_ns"].tolist() == [0, 3000]
    assert run.startup().samples()["t_ns"].tolist() == [0]
    assert run.steady().samples()["t_ns"].tolist() == [3000]
    assert run.steady().utilisation()["cpu_ns"] == 1500  # since the last sample before


def test_what_was_not_sampled_is_none_and_not_nought(tmp_path):
    writer, _ = small(tmp_path / "r", [(0, 10, Kind.CALL, 1)])
    writer.close()
    found = cutaway.open(tmp_path / "r").utilisation()
    assert found["cores_busy"] is found["runqueue_ns"] is found["other_cores"] is None


def test_the_timeline_adds_up_to_the_traced_time(run):
    for bins in (1, 7, 1000):
        assert run.timeline(bins)["ns"].sum() == run.threads()["traced_ns"].sum()
        assert run.device_timeline(bins)["ns"].sum() == 840


def test_queue_depth_counts_what_was_launched_and_had_not_started(tmp_path):
    writer, p = small(tmp_path / "r", [(0, 100, Kind.CALL, 1)])
    api, work = np.zeros(3, API_DTYPE), np.zeros(3, DEVICE_DTYPE)
    api["start"], api["end"], api["correlation"], api["os_thread"] = (
        [0, 10, 20],
        [5, 15, 25],
        [1, 2, 3],
        1,
    )
    work["start"], work["end"], work["correlation"] = (
        [15, 50, 80],
        [50, 80, 90],
        [1, 2, 3],
    )
    work["kind"], work["name"] = DeviceKind.KERNEL, p.name("k")
    p.api(api)
    p.device(work)
    writer.close()
    row = cutaway.open(tmp_path / "r").kernels().row(0)
    assert row["queue"] == (0 + 1 + 1) / 3
    assert row["launch_ns"] == (10 + 35 + 55) / 3


def test_a_process_has_the_cpu_time_of_threads_that_never_ran_python(tmp_path):
    """A pool of the backend is known from samples only."""
    with RunWriter(tmp_path / "r") as writer:
        process = writer.process(pid=7, name="main", role="learner", start_ns=5)
        process.thread(tid=7, name="MainThread").spans(
            [10, 20], [100, 30], ops=[process.name("sync")] * 2
        )
        for t, main, pool in ((20, 5, 0), (90, 65, 60)):
            used = {"7": [main, 0], "8": [pool, 0]}
            process.log("sample", {"t": t, "threads": used, "rss": 4096})
        process.exit(code=0, t=100)
    (row,) = cutaway.open(tmp_path / "r").processes()
    assert row["cpu_ns"] == 60 + 60
