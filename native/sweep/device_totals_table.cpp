// Totals of device work as columns of NumPy arrays.
#include <map>
#include <string>

#include "sweep/arrays.h"
#include "sweep/bind.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

using ByColumn = std::map<std::string, std::vector<int64_t>>;

int64_t number(uint32_t v) { return v == kNobody ? -1 : int64_t{v}; }

void append(std::vector<int64_t>& column, const uint32_t (&axes)[3]) {
  column.insert(column.end(), std::begin(axes), std::end(axes));
}

ByColumn kernel_columns(const DeviceTotals& totals, uint32_t first_thread) {
  ByColumn out;
  for (const auto& [k, v] : totals.kernels.entries()) {
    out["slice"].push_back(k.slice);
    out["device"].push_back(k.device);
    out["stream"].push_back(k.stream);
    out["operation"].push_back(number(k.operation));
    out["name"].push_back(k.name);
    out["kind"].push_back(k.kind);
    append(out["grid"], k.grid);
    append(out["block"], k.block);
    out["registers"].push_back(k.registers);
    out["shared"].push_back(k.shared);
    out["api"].push_back(k.api);
    out["thread"].push_back(k.thread == kNobody ? -1 : int64_t{k.thread} + first_thread);
    out["count"].push_back(static_cast<int64_t>(v.count));
    out["ns"].push_back(static_cast<int64_t>(v.ns));
    out["bytes"].push_back(static_cast<int64_t>(v.bytes));
    out["launched"].push_back(static_cast<int64_t>(v.launched));
    out["launch_ns"].push_back(v.launch_ns);
    out["queue"].push_back(static_cast<int64_t>(v.queue));
  }
  return out;
}

ByColumn union_columns(const DeviceTotals& totals) {
  ByColumn out;
  for (const auto& [k, v] : totals.unions.entries()) {
    out["device"].push_back(number(k.device));
    out["operation"].push_back(number(k.operation));
    out["kind"].push_back(k.kind);
    out["part"].push_back(k.part);
    out["ns"].push_back(static_cast<int64_t>(v.ns));
    out["count"].push_back(static_cast<int64_t>(v.count));
  }
  return out;
}

ByColumn device_columns(const DeviceTotals& totals) {
  ByColumn out;
  for (const auto& [k, v] : totals.devices.entries()) {
    out["device"].push_back(k.n);
    for (int slice = 0; slice < 3; ++slice) out["ns"].push_back(static_cast<int64_t>(v.ns[slice]));
    for (const int tracked : {DeviceBusy::kAll, DeviceBusy::kStartup, DeviceBusy::kSteadyState})
      for (const uint64_t count : v.periods[tracked].count)
        out["periods"].push_back(static_cast<int64_t>(count));
  }
  return out;
}

nb::dict table(ByColumn columns) {
  nb::dict out;
  for (auto& [name, values] : columns) out[name.c_str()] = to_numpy(std::move(values));
  return out;
}

}  // namespace

nb::object device_totals_of(RunSweep& run, uint32_t process) {
  DeviceTotals* totals = run.processes[process]->device_totals();
  if (!totals) return nb::none();
  totals->finish();
  nb::dict d;
  d["kernels"] = table(kernel_columns(*totals, run.first_thread[process]));
  d["unions"] = table(union_columns(*totals));
  d["devices"] = table(device_columns(*totals));
  return d;
}

}  // namespace cutaway
