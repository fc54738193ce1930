"""Device work by what it was and which operation launched it; and who kept whom waiting, host or device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import ANY_KIND, WHOLE_RUN, DeviceWork
from cutaway.analysis.intervals import length, union
from cutaway.analysis.occupancy import multiprocessor, occupancy
from cutaway.analysis.sweep import SHUTDOWN, STARTUP, STEADY, Columns, select
from cutaway.analysis.table import Table, objects
from cutaway.trace.format import Structured
from cutaway.vocabulary import DEVICE_LAYERS, DeviceKind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_BY = ("process", "device", "stream", "operation", "name", "kind", "grid", "block", "registers", "shared")
_KINDS = objects([DEVICE_LAYERS.get(kind, "") for kind in range(256)])
_UNATTRIBUTED, _NOBODY = "(unattributed)", -1
_PREPARING = ("python", "backend")


def kernels(run: Run) -> Table:
    """Device work by kernel, device, stream, launching operation, grid and block, longest first.

    `launch_ns` is the mean time from the end of the launching call to the start of the work (negative when the work
    began while the call was still running), `queue` the mean number of pieces of work that were launched before
    and had not yet started on the same stream; both are NaN where no launch is known. `occupancy` is the estimated
    share of the device's threads, NaN for copies and for devices whose limits are not known.

    >>> run.kernels().select("operation", "name", "kind", "count", "ns", "launch_ns", "occupancy")
    operation        name           kind    count   ns  launch_ns  occupancy
    backpropagation  gemm_backward  kernel      3  600         40      0.125
    inference        gemm           kernel      3  240         10      0.125
    """
    sums = ("count", "ns", "bytes", "launched", "launch_ns", "queue", "occupancy")
    parts = [Table(_launched_work(run, *work)) for work in _work(run)]
    parts += [Table(_totals(run, index, rows)) for index, rows in _kept(run)]
    out = Table.concat(parts or [Table.from_rows((*_BY, *sums), [])]).group(_BY, sums)
    launched = np.where(out["launched"] > 0, out["launched"], np.nan)
    means = {name: out[name] / launched for name in ("launch_ns", "queue")}
    out = out.with_columns({**means, "occupancy": out["occupancy"] / out["count"]})
    return out.select(*(name for name in out.columns if name != "launched")).sort("ns", descending=True)


def device_time(run: Run, *, layers: bool = True) -> Table:
    """Busy time of each device by the operation that launched the work. Overlaps within a row count once.

    >>> run.device_time().select("device", "operation", "layer", "ns", "count")
    device  operation        layer    ns  count
         0  backpropagation  kernel  600      3
         0  inference        kernel  240      3
    """
    by = ("process", "device", "operation", *(("layer",) if layers else ()))
    rows: list[tuple[Any, ...]] = []
    for index, work, at in _work(run):
        start, end, kind, device = (work.records[name][at] for name in ("start", "end", "kind", "device"))
        operation, texts = _operations(run, index, work, at)
        columns = {"device": device, "operation": operation, "layer": kind}
        first, group = Table(columns).groups(by[1:])
        for number, row in enumerate(first.tolist()):
            mine = group == number
            key = index, int(device[row]), texts[operation[row]], *((_KINDS[kind[row]],) if layers else ())
            rows.append((*key, length(union(start[mine], end[mine])), int(mine.sum())))
    for index, totals in enumerate(run.swept.device_totals):
        unions = totals.unions if totals and totals.unions else {"part": np.zeros(0)}
        for at in np.flatnonzero(unions["part"] == part_of(run)).tolist():
            row = {name: int(column[at]) for name, column in unions.items()}
            if row["device"] >= 0 and (row["kind"] == ANY_KIND) != layers:
                whose = index, row["device"], _operation(run, index, row["operation"])
                rows.append((*whose, *((_KINDS[row["kind"]],) if layers else ()), row["ns"], row["count"]))
    return Table.from_rows((*by, "ns", "count"), rows).sort("ns", descending=True)


def launched(run: Run) -> Table:
    """Device work by the API call that launched it, and the thread (a position in `threads()`) that made the call; -1
    where the launch was not recorded.

    >>> run.launched().select("thread", "operation", "api", "name", "ns")
    thread  operation        api               name            ns
         0  inference        cudaLaunchKernel  gemm           240
         0  backpropagation  cudaLaunchKernel  gemm_backward  600
    """
    by = ("process", "thread", "operation", "api", "name")
    tables = [Table.from_rows((*by, "ns"), [])]
    for index, work, at in _work(run):
        launch = work.launch[at]
        known, thread, api = launch >= 0, np.full(len(at), -1), np.zeros(len(at), np.int64)
        thread[known], api[known] = work.api_thread[launch[known]], work.api["name"][launch[known]]
        operation, texts = _operations(run, index, work, at)
        ids = Table({"thread": thread, "operation": operation, "api": api, **_numbers(work, at)})
        ids = ids.group(by[1:], ["ns"])
        process = np.full(len(ids), index, np.int64)
        named = {name: run.swept.text(process, ids[name]) for name in ("api", "name")}
        columns = {"process": process, "operation": texts[ids["operation"]], **named}
        tables.append(ids.with_columns(columns).group(by, ["ns"]))
    for index, kept in _kept(run):
        found = _totals(run, index, kept)
        found["api"] = run.swept.text(found["process"], kept["api"])
        tables.append(Table({name: found[name] for name in (*by, "ns")}).group(by, ["ns"]))
    return Table.concat(tables)


def launches(run: Run) -> Table:
    """How long the host waited for the device, and the device for the host, by launching operation.

    GPU-bound time: the device works while the launching thread waits for it. CPU-launch-bound time: the device idles while
    the thread is still in Python or the backend of an operation that launches work. `launch_ns` is the mean time from the end
    of a launching call to the start of its work, NaN where the operation launched nothing.

    >>> run.launches().select("operation", "count", "gpu_bound_ns", "cpu_launch_bound_ns")
    operation        count  gpu_bound_ns  cpu_launch_bound_ns
    backpropagation      3           600                  420
    inference            3             0                  300
    """
    return bound_times(run.breakdown(), run.kernels())


def bound_times(cells: Table, work: Table) -> Table:
    """From a breakdown by process, operation, layer and resource, and the table of kernels; longest bound first."""
    launched: dict[tuple[int, str], list[float]] = {}  # count, time until the start, how many of them tell it
    for row in work:
        entry = launched.setdefault((row["process"], row["operation"]), [0, 0.0, 0])
        known = row["count"] if row["launch_ns"] == row["launch_ns"] else 0
        waited = row["launch_ns"] * known if known else 0.0
        entry[:] = entry[0] + row["count"], entry[1] + waited, entry[2] + known
    bound: dict[tuple[int, str], list[int]] = {key: [0, 0] for key in launched}
    for cell in cells:
        key = (cell["process"], cell["operation"])
        if cell["resource"] == "gpu":
            bound.setdefault(key, [0, 0])[0] += cell["ns"]
        elif cell["resource"] == "cpu" and cell["layer"] in _PREPARING and key in launched:
            bound[key][1] += cell["ns"]
    rows: list[tuple[Any, ...]] = []
    for key, times in bound.items():
        count, waited, known = launched.get(key, [0, 0.0, 0])
        rows.append((*key, int(count), *times, waited / known if known else np.nan))
    rows.sort(key=lambda row: -max(row[3], row[4]))
    names = ("process", "operation", "count", "gpu_bound_ns", "cpu_launch_bound_ns", "launch_ns")
    return Table.from_rows(names, rows)


def _work(run: Run) -> Iterator[tuple[int, DeviceWork, NDArray[np.intp]]]:
    """Of each process: its position, its device work, and which of it belongs to this part of the run."""
    first, end = run.edges
    for index, work in enumerate(run.swept.devices):
        start = work.records["start"]
        if run.swept.device_totals[index]:
            continue
        if len(at := np.flatnonzero(work.busy & (start >= first) & (start < end))):
            yield index, work, at


def _kept(run: Run) -> Iterator[tuple[int, Columns]]:
    """Of each process whose device work is not all here: its position, and the rows of its totals of this part of the run."""
    for index, totals in enumerate(run.swept.device_totals):
        if totals and totals.kernels:
            shapes = {name: totals.kernels[name].reshape(-1, 3) for name in ("grid", "block")}
            part, slices = part_of(run), totals.kernels["slice"]
            yield index, select({**totals.kernels, **shapes}, (slices == part) | (part == WHOLE_RUN))


def part_of(run: Run) -> int:
    """The slice of this part of the run in totals of device work; those of a run without work of its own are all start-up."""
    none = -1
    parts = {"all": WHOLE_RUN, "startup": STARTUP, "steady": STEADY, "shutdown": SHUTDOWN}
    if not run.swept.steady_ns:
        parts |= {"startup": none, "steady": STARTUP, "shutdown": none}
    return parts[run.part]


def _totals(run: Run, index: int, rows: Columns) -> Columns:
    """Rows of the totals of a process as rows of `kernels`."""
    process = np.full(len(rows["ns"]), index, np.int64)
    asked = {"grid": rows["grid"], "block": rows["block"], "kind": rows["kind"], "device": rows["device"]}
    used = _occupancy(run.trace.processes[index].log.devices, asked, rows["registers"], rows["shared"])
    return {
        **{
            name: rows[name]
            for name in ("device", "stream", "registers", "shared", "count", "ns", "bytes", "launched")
        },
        "process": process,
        "operation": objects([_operation(run, index, id) for id in rows["operation"].tolist()]),
        "name": run.swept.text(process, rows["name"]),
        "kind": _KINDS[rows["kind"]],
        "grid": _shape(rows["grid"]),
        "block": _shape(rows["block"]),
        "launch_ns": rows["launch_ns"].astype(float),
        "queue": rows["queue"].astype(float),
        "occupancy": used * rows["count"],
        "thread": rows["thread"],
    }


def _operation(run: Run, index: int, id: int) -> str:
    return _UNATTRIBUTED if id == _NOBODY else run.trace.processes[index].log.name(id)


def _operations(
    run: Run, index: int, work: DeviceWork, at: NDArray[np.intp]
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The launching operation of some work as a position in a list of texts, and that list."""
    ids = np.where(work.unattributed[at], _NOBODY, work.operation[at].astype(np.int64))
    distinct, inverse = np.unique(ids, return_inverse=True)
    name, texts = run.trace.processes[index].log.name, dict[str, int]()
    named = (_UNATTRIBUTED if id == _NOBODY else name(id) for id in distinct.tolist())
    numbers = np.array([texts.setdefault(text, len(texts)) for text in named], np.int64)
    return numbers[inverse], objects(list(texts))


def _numbers(work: DeviceWork, at: NDArray[np.intp]) -> Columns:
    """Name and device of some work, and how long it took."""
    start, end, device, name = (work.records[key][at] for key in ("start", "end", "device", "name"))
    return {"name": name, "device": device.astype(np.int64), "ns": (end - start).astype(np.int64)}


def _whose(run: Run, index: int, work: DeviceWork, at: NDArray[np.intp]) -> Columns:
    process, numbers = np.full(len(at), index, np.int64), _numbers(work, at)
    operation, texts = _operations(run, index, work, at)
    named = {"operation": texts[operation], "name": run.swept.text(process, numbers["name"])}
    return {"process": process, **numbers, **named}


def _launched_work(run: Run, index: int, work: DeviceWork, at: NDArray[np.intp]) -> Columns:
    records, launch = work.records[at], work.launch[at]
    known = launch >= 0
    waited = (
        records["start"].astype(np.int64) - work.api["end"][launch].astype(np.int64) if known.any() else 0
    )
    return {
        **_whose(run, index, work, at),
        "stream": records["stream"].astype(np.int64),
        "kind": _KINDS[records["kind"]],
        "grid": _shape(records["grid"]),
        "block": _shape(records["block"]),
        "registers": records["registers"].astype(np.int64),
        "shared": _shared(records),
        "count": np.ones(len(at), np.int64),
        "bytes": records["bytes"].astype(np.int64),
        "launched": known.astype(np.int64),
        "launch_ns": np.where(known, waited, 0).astype(float),
        "queue": np.where(known, _queue(work)[at], 0).astype(float),
        "occupancy": _occupancy(
            run.trace.processes[index].log.devices, records, records["registers"], _shared(records)
        ),
    }


def _shared(records: Structured) -> NDArray[np.int64]:
    return np.asarray(records["shared_static"].astype(np.int64) + records["shared_dynamic"])


def _occupancy(
    devices: list[dict[str, Any]],
    records: Structured | Columns,
    registers: NDArray[Any],
    shared: NDArray[np.int64],
) -> NDArray[np.float64]:
    out = np.full(len(shared), np.nan)
    for device in devices:
        major, minor = (device.get(key, device.get(f"compute{key.title()}")) for key in ("major", "minor"))
        if isinstance(major, int) and isinstance(minor, int):
            at = (records["device"] == device.get("id")) & (records["kind"] == DeviceKind.KERNEL)
            sms = device.get("sms")
            limits, count = multiprocessor(major, minor), sms if isinstance(sms, int) else 0
            asked = (records["grid"][at], records["block"][at], registers[at], shared[at])
            out[at] = occupancy(limits, count, *asked).estimated
    return out


def _queue(work: DeviceWork) -> NDArray[np.int64]:
    """For each piece of work, how many on its stream had been launched but not started when it was launched."""
    out = np.zeros(len(work.records), np.int64)
    known = work.busy & (work.launch >= 0)
    for stream in np.unique(work.stream[known]).tolist():
        at = np.flatnonzero(known & (work.stream == stream))
        launched = work.api["start"][work.launch[at]].astype(np.int64)
        started = np.sort(work.records["start"][at].astype(np.int64))
        before = np.searchsorted(np.sort(launched), launched, side="left")
        out[at] = np.maximum(before - np.searchsorted(started, launched, side="right"), 0)
    return out


def _shape(columns: NDArray[Any]) -> NDArray[Any]:
    """`(128, 1, 1)` as `128x1x1`, nothing where it was not told."""
    distinct, inverse = np.unique(columns, axis=0, return_inverse=True)
    words = objects(["x".join(map(str, row)) if any(row) else "" for row in distinct.tolist()])
    return np.asarray(words[inverse.reshape(-1)])
