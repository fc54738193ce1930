// What device.bin holds, and tables about it, as Python sees them.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "sweep/archive.h"
#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/device_time.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

// `past`: what `taken` returned when their process was looked at last; empty at the first look.
std::shared_ptr<DeviceRecords> look_at_devices(std::shared_ptr<ProcessFiles> files,
                                               Input<uint8_t> sources, Input<uint8_t> past) {
  auto list = sources_of(*files, sources);
  DevicePast before;
  Loader from(past.data(), past.size());
  if (past.size()) from(before);
  if (!from.ok()) throw nb::value_error("damaged totals of devices");
  nb::gil_scoped_release release;
  return std::make_shared<DeviceRecords>(std::move(files), std::move(list), std::move(before));
}

nb::tuple taken(const DeviceRecords& devices, uint64_t until, uint64_t begun_calls,
                uint64_t begun_works) {
  std::vector<uint64_t> done;
  DevicePast past = devices.taken(until, begun_calls, begun_works, done);
  Saver to;
  to(past);
  std::vector<uint64_t> left;
  for (const auto& t : past.taken) left.insert(left.end(), {t.offset, t.count});
  return nb::make_tuple(to_numpy(std::move(to.bytes)), to_numpy(std::move(left)),
                        to_numpy(std::move(done)));
}

// Pairs of positions: of a stream, and of a thread in `threads` that launched on it.
Array<uint32_t> launched(const DeviceRecords& devices) {
  std::vector<uint32_t> flat;
  for (const auto& [stream, thread] : devices.launched) flat.insert(flat.end(), {stream, thread});
  return to_numpy(std::move(flat));
}

std::vector<std::tuple<uint32_t, uint32_t, uint64_t>> damage(const DeviceRecords& devices) {
  std::vector<std::tuple<uint32_t, uint32_t, uint64_t>> out;
  for (const auto& d : devices.damage) out.emplace_back(d.stream, d.clock, d.count);
  return out;
}

// Of each process: its device records, and the operation that launched each piece of work.
using Sources = std::vector<std::tuple<std::shared_ptr<DeviceRecords>, Input<uint32_t>>>;

std::vector<DeviceSource> device_sources(const Sources& processes) {
  std::vector<DeviceSource> out;
  for (const auto& [devices, operations] : processes)
    out.push_back({devices.get(), operations.data(), operations.size()});
  return out;
}

// by, ids and titles of the operations of each process, instants.
using Titles = std::vector<std::tuple<Input<uint32_t>, Input<uint32_t>>>;
using Query = std::tuple<uint32_t, Titles, Input<uint64_t>>;

BusyQuery busy_query(const Query& query, size_t processes) {
  const auto& [by, titles, instants] = query;
  BusyQuery out{by, {}, values(instants)};
  for (const auto& [ids, numbers] : titles) {
    auto& own = out.titles.emplace_back();
    for (size_t i = 0; i < std::min(ids.size(), numbers.size()); ++i)
      own.emplace_back(ids.data()[i], numbers.data()[i]);
    if (own.size() < 2 || own.back().first != kUnattributed ||
        own[own.size() - 2].first != kUnknown || !std::is_sorted(own.begin(), own.end()))
      throw nb::value_error("operations by id, those without a name last");
  }
  if (by & BusyQuery::kOperation && out.titles.size() != processes)
    throw nb::value_error("titles for each process");
  return out;
}

template <typename Table, typename Get>
auto column(const Table& table, Get get) {
  std::vector<std::decay_t<decltype(get(table.entries()[0]))>> out;
  for (const auto& entry : table.entries()) out.push_back(get(entry));
  return to_numpy(std::move(out));
}

nb::dict busy_rows(const BusyTable& table) {
  nb::dict d;
  d["process"] = column(table, [](auto& e) { return e.key.process; });
  d["device"] = column(table, [](auto& e) { return e.key.device; });
  d["operation"] = column(table, [](auto& e) { return e.key.operation; });
  d["kind"] = column(table, [](auto& e) { return e.key.kind; });
  d["ns"] = column(table, [](auto& e) { return static_cast<int64_t>(e.value.ns); });
  std::vector<int64_t> bins;
  for (const auto& e : table.entries())
    bins.insert(bins.end(), e.value.bins.begin(), e.value.bins.end());
  d["bins"] = to_numpy(std::move(bins));
  return d;
}

nb::list device_busy(const Sources& processes, const std::vector<Query>& queries) {
  const auto sources = device_sources(processes);
  std::vector<BusyQuery> asked;
  for (const Query& query : queries) asked.push_back(busy_query(query, sources.size()));
  std::vector<BusyTable> tables;
  {
    nb::gil_scoped_release release;
    tables = busy_tables(sources, asked);
  }
  nb::list out;
  for (const BusyTable& table : tables) out.append(busy_rows(table));
  return out;
}

nb::dict device_use(const Sources& processes, uint64_t first, uint64_t end) {
  const auto sources = device_sources(processes);
  UseTable table;
  {
    nb::gil_scoped_release release;
    table = use_of_devices(sources, first, end);
  }
  nb::dict d;
  d["device"] = column(table, [](auto& e) { return e.key.n; });
  d["ns"] = column(table, [](auto& e) { return static_cast<int64_t>(e.value.ns); });
  d["short"] =
      column(table, [](auto& e) { return static_cast<int64_t>(e.value.kernels.count[0]); });
  d["long"] = column(table, [](auto& e) { return static_cast<int64_t>(e.value.kernels.count[1]); });
  return d;
}

// Of intervals in order of their start: in how many periods of each length one lies.
std::pair<uint64_t, uint64_t> periods(Input<int64_t> starts, Input<int64_t> ends, uint64_t first,
                                      uint64_t end) {
  Periods found;
  for (size_t i = 0; i < std::min(starts.size(), ends.size()); ++i)
    found.touch(first, end, static_cast<uint64_t>(starts.data()[i]),
                static_cast<uint64_t>(ends.data()[i]));
  return {found.count[0], found.count[1]};
}

}  // namespace

void bind_devices(nb::module_& m) {
  m.def("look_at_devices", &look_at_devices, nb::arg("process"), nb::arg("sources"),
        nb::arg("past"));
  m.def("device_busy", &device_busy, nb::arg("processes"), nb::arg("queries"));
  m.def("device_use", &device_use, nb::arg("processes"), nb::arg("first"), nb::arg("end"));
  m.def("periods", &periods, nb::arg("starts"), nb::arg("ends"), nb::arg("first"), nb::arg("end"));
  nb::class_<DeviceRecords>(m, "Devices")
      .def_prop_ro(
          "threads", [](const DeviceRecords& d) { return to_numpy(std::vector(d.threads)); },
          nb::rv_policy::move)
      .def_prop_ro("streams", [](const DeviceRecords& d) { return d.streams.size(); })
      .def_prop_ro("launched", &launched, nb::rv_policy::move)
      .def_prop_ro("damage", &damage)
      .def("taken", &taken, nb::arg("until"), nb::arg("begun_calls"), nb::arg("begun_works"))
      .def_ro("late", &DeviceRecords::late)
      .def_ro("calls", &DeviceRecords::calls)
      .def_ro("works", &DeviceRecords::works)
      .def_ro("end", &DeviceRecords::end);
}

}  // namespace cutaway
