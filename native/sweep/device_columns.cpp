// What device work adds up to, as columns of NumPy arrays.
#include "sweep/bind.h"
#include "sweep/columns.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

// -1 where it is not known.
int64_t number(uint32_t v) { return v == kNobody ? -1 : int64_t{v}; }

nb::dict kernels(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.devices.kernels.entries(); });
  c.add("process", [](auto r) { return int64_t{r.process}; });
  c.add("thread", [](auto r) {
    const int64_t thread = number(r.row.key.thread);
    return thread < 0 ? thread : thread + r.first_thread;
  });
  c.add("api", [](auto r) { return r.row.key.api; });
  c.add("operation", [](auto r) { return r.row.key.operation; });
  c.add("device", [](auto r) { return r.row.key.device; });
  c.add("stream", [](auto r) { return r.row.key.stream; });
  c.add("name", [](auto r) { return r.row.key.name; });
  c.add("kind", [](auto r) { return r.row.key.kind; });
  c.add("grid_x", [](auto r) { return r.row.key.grid[0]; });
  c.add("grid_y", [](auto r) { return r.row.key.grid[1]; });
  c.add("grid_z", [](auto r) { return r.row.key.grid[2]; });
  c.add("block_x", [](auto r) { return r.row.key.block[0]; });
  c.add("block_y", [](auto r) { return r.row.key.block[1]; });
  c.add("block_z", [](auto r) { return r.row.key.block[2]; });
  c.add("registers", [](auto r) { return r.row.key.registers; });
  c.add("shared", [](auto r) { return r.row.key.shared; });
  c.add("slice", [](auto r) { return r.row.key.slice; });
  c.add("count", [](auto r) { return r.row.value.count; });
  c.add("ns", [](auto r) { return r.row.value.ns; });
  c.add("bytes", [](auto r) { return r.row.value.bytes; });
  c.add("launched", [](auto r) { return r.row.value.launched; });
  c.add("launch_ns", [](auto r) { return r.row.value.launch_ns; });
  c.add("queue", [](auto r) { return r.row.value.queue; });
  return c.dict;
}

nb::dict unions(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.devices.unions.entries(); });
  c.add("process", [](auto r) { return int64_t{r.process}; });
  c.add("device", [](auto r) { return number(r.row.key.device); });
  c.add("operation", [](auto r) { return r.row.key.operation; });
  c.add("kind", [](auto r) { return r.row.key.kind; });
  c.add("part", [](auto r) { return r.row.key.part; });
  c.add("ns", [](auto r) { return r.row.value.ns; });
  c.add("count", [](auto r) { return r.row.value.count; });
  return c.dict;
}

// How each device was used, by slice; and in how many periods of each length a kernel ran.
nb::dict use(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.devices.devices.entries(); });
  c.add("process", [](auto r) { return int64_t{r.process}; });
  c.add("device", [](auto r) { return r.row.key.n; });
  c.add("startup_ns", [](auto r) { return r.row.value.ns[0]; });
  c.add("steady_ns", [](auto r) { return r.row.value.ns[1]; });
  c.add("shutdown_ns", [](auto r) { return r.row.value.ns[kShutDown]; });
  const auto ran = [](int part, size_t length) {
    return [part, length](auto r) { return r.row.value.periods[part].count[length]; };
  };
  c.add("all_short", ran(DeviceBusy::kAll, 0));
  c.add("all_long", ran(DeviceBusy::kAll, 1));
  c.add("startup_short", ran(DeviceBusy::kStartup, 0));
  c.add("startup_long", ran(DeviceBusy::kStartup, 1));
  c.add("steady_short", ran(DeviceBusy::kSteadyState, 0));
  c.add("steady_long", ran(DeviceBusy::kSteadyState, 1));
  return c.dict;
}

}  // namespace

void add_device_tables(RunSweep& run, nb::dict& to) {
  for (auto& p : run.processes) p->devices.finish();
  to["kernels"] = kernels(run);
  to["unions"] = unions(run);
  to["use"] = use(run);
  nb::list operations;
  for (auto& p : run.processes) operations.append(to_numpy(std::move(p->devices.operations)));
  to["work_operation"] = operations;
}

}  // namespace cutaway
