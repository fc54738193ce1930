"""The Perfetto export, read back with Perfetto's own protobuf classes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from foreign import HERE

from cutaway.analysis.exports import export
from cutaway.trace.imports import import_files
from cutaway.trace.reader import read_run
from cutaway.trace.writer import RunWriter
from cutaway.vocabulary import Kind


class Perfetto:
    """A trace as a viewer sees it: names resolved, slices closed by the next end on their track."""

    def __init__(self, path: Path) -> None:
        # Here, not above: on the Pythons that run the core tests only, this file is read but Perfetto is not installed.
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent

        trace = Trace()
        trace.ParseFromString(path.read_bytes())
        self.tracks: dict[int, Any] = {}
        self.slices: Counter[tuple[int, str, int, int]] = Counter()
        self.flows: dict[int, list[tuple[int, int]]] = {}
        self.counters: dict[int, list[tuple[int, int]]] = {}
        self.categories: set[str] = set()
        names: dict[int, str] = {}
        kinds: dict[int, str] = {}
        stacks: dict[int, list[tuple[str, int]]] = {}
        for packet in trace.packet:
            names |= {
                entry.iid: entry.name for entry in packet.interned_data.event_names
            }
            kinds |= {
                entry.iid: entry.name for entry in packet.interned_data.event_categories
            }
            if packet.HasField("track_descriptor"):
                self.tracks[packet.track_descriptor.uuid] = packet.track_descriptor
            if not packet.HasField("track_event"):
                continue
            event, track, time = (
                packet.track_event,
                packet.track_event.track_uuid,
                packet.timestamp,
            )
            assert track in self.tracks
            if event.type == TrackEvent.TYPE_SLICE_BEGIN:
                stacks.setdefault(track, []).append((names[event.name_iid], time))
                self.categories.add(kinds[event.category_iids[0]])
                for flow in event.flow_ids:
                    self.flows.setdefault(flow, []).append((track, time))
            elif event.type == TrackEvent.TYPE_SLICE_END:
                name, start = stacks[track].pop()
                self.slices[track, name, start, time] += 1
            elif event.type == TrackEvent.TYPE_COUNTER:
                self.counters.setdefault(track, []).append((time, event.counter_value))
        assert not any(stacks.values())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("perfetto")
    files = [
        "kineto_hta/hta_gpu_user_annotation.json.gz",
        "tracelens/tl_sglang_decode.json.gz",
    ]
    import_files([HERE / "traces" / file for file in files], folder / "r.cutaway")
    return folder / "r.cutaway"


def test_every_slice_is_on_its_track_at_its_nanosecond(
    run: Path, tmp_path: Path
) -> None:
    count = export(run, "perfetto", tmp_path / "out")
    found = Perfetto(tmp_path / "out")
    assert sum(found.slices.values()) == count
    anywhere = Counter[tuple[str, int, int]]()
    for (_, name, start, end), number in found.slices.items():
        anywhere[name, start, end] += number
    expected = 0
    for process in read_run(run).processes:
        for record in np.concatenate(
            [
                process.api()[["name", "start", "end"]],
                process.device()[["name", "start", "end"]],
            ]
        ):
            assert anywhere[
                process.log.name(int(record["name"])),
                int(record["start"]),
                int(record["end"]),
            ]
            expected += 1
        for thread in process.threads:
            block = np.concatenate(list(process.records(thread)))
            expected += int(
                np.isin(
                    block["tag"] & 0xFF, (Kind.CALL, Kind.ENTER, Kind.OP_ENTER)
                ).sum()
            )
    assert count == expected
    assert {"operation", "backend", "accelerator_api", "device"} <= found.categories


def test_flows_lead_from_the_launch_to_each_piece_of_its_work(
    run: Path, tmp_path: Path
) -> None:
    export(run, "perfetto", tmp_path / "out")
    found = Perfetto(tmp_path / "out")
    assert len(found.flows) == 140 + 558
    fans: Counter[tuple[int, int]] = Counter()
    for source, target in found.flows.values():
        assert "accelerator API" in found.tracks[source[0]].name
        assert "stream" in found.tracks[target[0]].name
        fans[source] += 1
    assert max(fans.values()) == 544


def test_processes_threads_and_counters_are_described(tmp_path: Path) -> None:
    with RunWriter(tmp_path / "r.cutaway") as writer:
        process = writer.process(pid=7, name="main", role="learner", start_ns=5)
        process.thread(tid=8, name="MainThread").spans(
            [10, 20], [100, 30], ops=[process.name("sync")] * 2
        )
        process.log("sample", {"t": 50, "threads": {}, "rss": 4096, "cores": 1.5})
        process.exit(code=0, t=100)
    export(tmp_path / "r.cutaway", "perfetto", tmp_path / "out")
    found = Perfetto(tmp_path / "out")
    described = list(found.tracks.values())
    assert (
        described[0].process.pid == 7
        and described[0].process.process_name == "main (learner)"
    )
    assert (
        described[1].thread.tid == 8 and described[1].thread.thread_name == "MainThread"
    )
    assert {found.tracks[t].name: points for t, points in found.counters.items()} == {
        "resident memory": [(50, 4096)],
        "percent of a core busy": [(50, 150)],
    }
    assert found.categories == {"operation,rl.sync"}


def test_perfettos_own_trace_processor_agrees(run: Path, tmp_path: Path) -> None:
    from trace_processor import ask

    count = export(run, "perfetto", tmp_path / "out")
    processes = read_run(run).processes
    errors, slices, unfinished, flows, names, busy = ask(
        tmp_path / "out",
        [
            "SELECT name, value FROM stats WHERE severity = 'error' AND value > 0",
            "SELECT count(*) FROM slice",
            "SELECT count(*) FROM slice WHERE dur < 0",
            "SELECT count(*) FROM flow",
            "SELECT name FROM process WHERE pid > 0 ORDER BY name",
            "SELECT sum(dur) FROM slice WHERE category = 'device'",
        ],
    )
    assert (
        errors == []
        and slices == [(count,)]
        and unfinished == [(0,)]
        and flows == [(140 + 558,)]
    )
    assert [name for (name,) in names] == sorted(
        str(p.log.process["name"]) for p in processes
    )
    assert busy == [
        (sum(int((p.device()["end"] - p.device()["start"]).sum()) for p in processes),)
    ]
