"""Device work by what it was and which operation launched it; and who kept whom waiting, host or device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutaway.analysis.devices import ANY_KIND, WHOLE_RUN
from cutaway.analysis.occupancy import occupancy
from cutaway.analysis.sweep import SHUTDOWN, STARTUP, STEADY
from cutaway.analysis.table import Table, objects
from cutaway.machines.multiprocessor import multiprocessor
from cutaway.vocabulary import DEVICE_LAYERS, DeviceKind

if TYPE_CHECKING:
    from cutaway.analysis.run import Run

_BY = (
    "process",
    "device",
    "stream",
    "operation",
    "name",
    "kind",
    "grid",
    "block",
    "registers",
    "shared",
)
_KINDS = objects([DEVICE_LAYERS.get(kind, "") for kind in range(256)])
_PREPARING = ("python", "backend")
_NO_PART = -1


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
    found = run.swept.devices.by_launch(part_of(run))
    shapes = {}
    for shape in ("grid", "block"):
        shapes[shape] = _shape([found[f"{shape}_{axis}"] for axis in "xyz"])
    texts = {
        "name": run.swept.names.texts(found["name"]),
        "kind": _KINDS[found["kind"]],
        **shapes,
    }
    found = found.with_columns(
        {**texts, "occupancy": _occupancy(run, found) * found["count"]}
    )
    out = found.group(
        _BY, ("count", "ns", "bytes", "launched", "launch_ns", "queue", "occupancy")
    )
    launched = np.where(out["launched"] > 0, out["launched"], np.nan)
    means = {name: out[name] / launched for name in ("launch_ns", "queue")}
    out = out.with_columns({**means, "occupancy": out["occupancy"] / out["count"]})
    return out.select(*(name for name in out.columns if name != "launched")).sort(
        "ns", descending=True
    )


def device_time(run: Run, *, layers: bool = True) -> Table:
    """Busy time of each device by the operation that launched the work. Overlaps within a row count once.

    >>> run.device_time().select("device", "operation", "layer", "ns", "count")
    device  operation        layer    ns  count
         0  backpropagation  kernel  600      3
         0  inference        kernel  240      3
    """
    by = ("process", "device", "operation", *(("kind",) if layers else ()))
    found = run.swept.devices.busy_times(part_of(run))
    out = found.where((found["device"] >= 0) & ((found["kind"] != ANY_KIND) == layers))
    if layers:
        named = {"layer": _KINDS[out["kind"]]}
    else:
        named = {}
    return (
        out.with_columns(named)
        .select(*by[:3], *named, "ns", "count")
        .sort("ns", descending=True)
    )


def part_of(run: Run) -> int:
    """This part of the run in totals of device work; those of a run without work of its own are all start-up."""
    parts = {
        "all": WHOLE_RUN,
        "startup": STARTUP,
        "steady": STEADY,
        "shutdown": SHUTDOWN,
    }
    if not run.stages.steady_ns:
        parts |= {"startup": _NO_PART, "steady": STARTUP, "shutdown": _NO_PART}
    return parts[run.part]


def launched_work(run: Run) -> Table:
    """Device work by the API call that launched it, and the thread (a position in `threads()`) that made the call; -1
    where the launch was not recorded.

    >>> run.launched_work().select("thread", "operation", "api", "name", "ns")
    thread  operation        api               name            ns
         0  inference        cudaLaunchKernel  gemm           240
         0  backpropagation  cudaLaunchKernel  gemm_backward  600
    """
    by = ("process", "thread", "operation", "api", "name")
    found = run.swept.devices.by_launch(part_of(run))
    named = {name: run.swept.names.texts(found[name]) for name in ("api", "name")}
    return found.with_columns(named).group(by, ["ns"])


def launch_waits(run: Run) -> Table:
    """How long the host waited for the device, and the device for the host, by launching operation.

    GPU-bound time: the device works while the launching thread waits for it. CPU-launch-bound time: the device idles while
    the thread is still in Python or the backend of an operation that launches work. `launch_ns` is the mean time from the end
    of a launching call to the start of its work, NaN where the operation launched nothing.

    >>> run.launch_waits().select("operation", "count", "gpu_bound_ns", "cpu_launch_bound_ns")
    operation        count  gpu_bound_ns  cpu_launch_bound_ns
    backpropagation      3           600                  420
    inference            3             0                  300
    """
    return bound_times(run.breakdown(), run.kernels())


def bound_times(cells: Table, work: Table) -> Table:
    """From a breakdown by process, operation, layer and resource, and the table of kernels; longest bound first."""
    launched: dict[tuple[int, str], _LaunchedBy] = {}
    for row in work:
        key = (row["process"], row["operation"])
        launched.setdefault(key, _LaunchedBy()).add(row)
    bound = {key: [0, 0] for key in launched}  # by the device, by launching
    for cell in cells:
        key = (cell["process"], cell["operation"])
        prepares = cell["resource"] == "cpu" and cell["layer"] in _PREPARING
        if cell["resource"] == "gpu":
            bound.setdefault(key, [0, 0])[0] += cell["ns"]
        elif prepares and key in launched:
            bound[key][1] += cell["ns"]
    rows: list[tuple[Any, ...]] = []
    for key, times in bound.items():
        own = launched.get(key, _LaunchedBy())
        rows.append((*key, own.count, *times, own.launch_ns))
    rows.sort(key=lambda row: -max(row[3], row[4]))
    names = (
        "process",
        "operation",
        "count",
        "gpu_bound_ns",
        "cpu_launch_bound_ns",
        "launch_ns",
    )
    return Table.from_rows(names, rows)


@dataclass
class _LaunchedBy:
    """The work that an operation launched."""

    count: int = 0
    known: int = 0  # of how many it is known when they were launched
    waited_ns: float = 0.0  # until they began

    def add(self, row: dict[str, Any]) -> None:
        self.count += row["count"]
        if row["launch_ns"] == row["launch_ns"]:
            self.known += row["count"]
            self.waited_ns += row["launch_ns"] * row["count"]

    @property
    def launch_ns(self) -> float:
        """The mean; NaN where nothing is known."""
        if self.known:
            return self.waited_ns / self.known
        return np.nan


def _occupancy(run: Run, work: Table) -> NDArray[np.float64]:
    out = np.full(len(work), np.nan)
    for index in np.unique(work["process"]).tolist():
        for device in run.trace.processes[index].log.devices:
            at = (work["process"] == index) & (work["device"] == device.get("id"))
            at &= work["kind"] == DeviceKind.KERNEL
            found = _occupancy_on(device, work.where(at))
            if found is not None:
                out[at] = found
    return out


def _occupancy_on(device: dict[str, Any], work: Table) -> NDArray[np.float64] | None:
    """Of kernels on one device; None if its log does not say what it is."""
    major = device.get("major", device.get("computeMajor"))
    minor = device.get("minor", device.get("computeMinor"))
    if not isinstance(major, int) or not isinstance(minor, int):
        return None
    sms = device.get("sms")
    count = sms if isinstance(sms, int) else 0
    grid = np.stack([work[f"grid_{axis}"] for axis in "xyz"], axis=1)
    block = np.stack([work[f"block_{axis}"] for axis in "xyz"], axis=1)
    limits = multiprocessor(major, minor)
    asked = (grid, block, work["registers"], work["shared"])
    return occupancy(limits, count, *asked).estimated


def _shape(axes: list[NDArray[Any]]) -> NDArray[Any]:
    """`(128, 1, 1)` as `128x1x1`; empty if unknown."""
    rows = zip(*(axis.tolist() for axis in axes), strict=True)
    return objects(["x".join(map(str, row)) if any(row) else "" for row in rows])
