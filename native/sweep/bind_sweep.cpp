// The sweep as a Python class: filled process by process, run once, read out as arrays.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/sweep.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

uint32_t add_process(Sweep& sweep, std::shared_ptr<ProcessFiles> files) {
  SweepProcess p;
  p.files = std::move(files);
  return sweep.add_process(std::move(p));
}

std::vector<Source> checked_sources(const Sweep& sweep, uint32_t process, const Input<uint8_t>& sources) {
  if (process >= sweep.processes.size()) throw nb::index_error("no such process");
  return sources_of(*sweep.processes[process]->files, sources);
}

uint32_t add_thread(Sweep& sweep, uint32_t process, uint32_t id, Input<uint8_t> sources) {
  return sweep.add_thread(process, id, checked_sources(sweep, process, sources));
}

void add_samples(Sweep& sweep, uint32_t process, Input<uint8_t> sources) {
  sweep.add_samples(process, checked_sources(sweep, process, sources));
}

// Threads that launched on stream i: launchers[offsets[i] … offsets[i + 1]).
void set_device_work(Sweep& sweep, uint32_t process, Input<uint8_t> api, Input<uint8_t> work,
                     Input<uint32_t> offsets, Input<uint32_t> launchers) {
  if (process >= sweep.processes.size()) throw nb::index_error("no such process");
  auto calls = structures<ApiCall>(api);
  auto works = structures<Work>(work);
  std::vector<std::vector<uint32_t>> streams(offsets.size() ? offsets.size() - 1 : 0);
  for (size_t i = 0; i < streams.size(); ++i)
    for (uint32_t k = offsets.data()[i]; k < offsets.data()[i + 1]; ++k) {
      if (k >= launchers.size() || launchers.data()[k] >= sweep.threads.size())
        throw nb::index_error("no such launcher");
      streams[i].push_back(launchers.data()[k]);
    }
  for (const ApiCall& c : calls)
    if (c.thread >= sweep.threads.size() || c.end < c.start) throw nb::value_error("a broken API call");
  for (const Work& w : works)
    if (w.stream >= streams.size() || w.end < w.start) throw nb::value_error("broken device work");
  sweep.set_device_work(process, std::move(calls), std::move(works), std::move(streams));
}

// Builds one column after the other.
template <typename Rows, typename Get>
auto column(const Rows& rows, Get get) {
  using T = std::decay_t<decltype(get(*rows.begin()))>;
  std::vector<T> out;
  out.reserve(rows.size());
  for (const auto& row : rows) out.push_back(get(row));
  return to_numpy(std::move(out));
}

nb::dict cells(const Sweep& sweep) {
  nb::dict d;
  const auto& contexts = sweep.contexts.entries();
  auto key = [&](const Cell& c) { return contexts[c.context].key; };
  const auto& rows = sweep.cells;
  d["thread"] = column(rows, [&](const Cell& c) { return key(c).thread; });
  d["phase"] = column(rows, [&](const Cell& c) { return key(c).phase; });
  d["operation"] = column(rows, [&](const Cell& c) { return key(c).operation; });
  d["slice"] = column(rows, [&](const Cell& c) { return key(c).slice; });
  d["why"] = column(rows, [&](const Cell& c) { return static_cast<uint8_t>(key(c).why); });
  d["layer"] = column(rows, [](const Cell& c) { return static_cast<uint8_t>(c.state >> 3); });
  d["blocked"] = column(rows, [](const Cell& c) { return static_cast<uint8_t>(c.state >> 2 & 1); });
  d["busy"] = column(rows, [](const Cell& c) { return static_cast<uint8_t>(c.state >> 1 & 1); });
  d["busy_process"] = column(rows, [](const Cell& c) { return static_cast<uint8_t>(c.state & 1); });
  d["ns"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.ns); });
  d["calls"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.calls); });
  d["calls_made"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.calls_made); });
  d["operations"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.operations); });
  d["operations_made"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.operations_made); });
  d["begun"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.begun); });
  d["api_calls"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.api_calls); });
  d["api_calls_made"] = column(rows, [](const Cell& c) { return static_cast<int64_t>(c.api_calls_made); });
  return d;
}

nb::dict sites(const Sweep& sweep) {
  nb::dict d;
  using Entry = Dense<SiteKey, Site>::Entry;
  const auto& contexts = sweep.contexts.entries();
  auto key = [&](const Entry& e) { return contexts[e.key.context].key; };
  const auto& rows = sweep.sites.entries();
  d["thread"] = column(rows, [&](const Entry& e) { return key(e).thread; });
  d["phase"] = column(rows, [&](const Entry& e) { return key(e).phase; });
  d["operation"] = column(rows, [&](const Entry& e) { return key(e).operation; });
  d["slice"] = column(rows, [&](const Entry& e) { return key(e).slice; });
  d["from"] = column(rows, [](const Entry& e) { return e.key.from; });
  d["call"] = column(rows, [](const Entry& e) { return e.key.call; });
  d["count"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.count); });
  d["ns"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.ns); });
  return d;
}

nb::dict operations(Sweep& sweep) {
  nb::dict d;
  using Entry = Dense<OperationKey, Durations>::Entry;
  auto& rows = sweep.operations.entries();
  d["process"] = column(rows, [](const Entry& e) { return e.key.process; });
  d["operation"] = column(rows, [](const Entry& e) { return e.key.operation; });
  d["slice"] = column(rows, [](const Entry& e) { return e.key.slice; });
  d["count"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.count); });
  d["total_ns"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.total); });
  d["sum_ns"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.sum); });
  d["outer"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.outer); });
  d["calls"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.inside.calls); });
  d["operations"] =
      column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.inside.operations); });
  d["api_calls"] =
      column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value.inside.api_calls); });
  std::vector<int64_t> p50, p95;
  for (Entry& e : rows) {
    p50.push_back(static_cast<int64_t>(e.value.quantile(0.5)));
    p95.push_back(static_cast<int64_t>(e.value.quantile(0.95)));
  }
  d["p50_ns"] = to_numpy(std::move(p50));
  d["p95_ns"] = to_numpy(std::move(p95));
  return d;
}

nb::dict sample_rows(const Sweep& sweep) {
  nb::dict d;
  using Entry = Dense<SampleKey, uint64_t>::Entry;
  const auto& contexts = sweep.contexts.entries();
  auto key = [&](const Entry& e) { return contexts[e.key.context].key; };
  const auto& rows = sweep.samples.entries();
  d["thread"] = column(rows, [&](const Entry& e) { return key(e).thread; });
  d["operation"] = column(rows, [&](const Entry& e) { return key(e).operation; });
  d["slice"] = column(rows, [&](const Entry& e) { return key(e).slice; });
  d["layer"] = column(rows, [](const Entry& e) { return e.key.layer; });
  d["call"] = column(rows, [](const Entry& e) { return e.key.call; });
  d["frame"] = column(rows, [](const Entry& e) { return e.key.frame; });
  d["count"] = column(rows, [](const Entry& e) { return static_cast<int64_t>(e.value); });
  return d;
}

nb::dict thread_rows(const Sweep& sweep) {
  nb::dict d;
  using Row = std::unique_ptr<SweepThread>;
  const auto& rows = sweep.threads;
  auto counted = [](uint64_t ReadCounts::* field) {
    return [field](const Row& t) { return static_cast<int64_t>(t->events ? t->events->counts().*field : 0); };
  };
  d["process"] = column(rows, [](const Row& t) { return t->process; });
  d["first"] = column(rows, [](const Row& t) { return static_cast<int64_t>(t->first); });
  d["end"] = column(rows, [](const Row& t) { return static_cast<int64_t>(t->end); });
  d["traced_ns"] = column(rows, [](const Row& t) { return static_cast<int64_t>(t->traced_ns); });
  d["paused_ns"] = column(rows, [](const Row& t) { return static_cast<int64_t>(t->paused_ns); });
  d["cpu_ns"] = column(rows, [](const Row& t) { return static_cast<int64_t>(t->cpu_last - t->cpu_first); });
  d["has_cpu"] = column(rows, [](const Row& t) { return static_cast<uint8_t>(t->cpu_seen); });
  d["carries"] = column(rows, [](const Row& t) { return static_cast<uint8_t>(t->carries); });
  d["unmatched"] = column(rows, [](const Row& t) { return static_cast<int64_t>(t->unmatched); });
  d["events"] = column(rows, counted(&ReadCounts::events));
  d["disordered"] = column(rows, counted(&ReadCounts::disordered));
  d["implausible"] = column(rows, counted(&ReadCounts::implausible));
  d["damaged"] = column(rows, counted(&ReadCounts::damaged));
  return d;
}

nb::dict iterations(const Sweep& sweep) {
  nb::dict d;
  const auto& rows = sweep.iterations;
  d["process"] = column(rows, [](const Iteration& i) { return i.process; });
  d["number"] = column(rows, [](const Iteration& i) { return i.number; });
  d["time"] = column(rows, [](const Iteration& i) { return static_cast<int64_t>(i.time); });
  d["steps"] = column(rows, [](const Iteration& i) { return static_cast<int64_t>(i.steps); });
  return d;
}

nb::dict pauses(const Sweep& sweep) {
  nb::dict d;
  const auto& rows = sweep.pauses;
  d["thread"] = column(rows, [](const Pause& p) { return p.thread; });
  d["reason"] = column(rows, [](const Pause& p) { return p.reason; });
  d["start"] = column(rows, [](const Pause& p) { return static_cast<int64_t>(p.start); });
  d["end"] = column(rows, [](const Pause& p) { return static_cast<int64_t>(p.end); });
  return d;
}

// Time by mask of conditions (bit 0: traced thread, 1: executing thread, 2: busy device), 8 numbers a
// process.
nb::dict process_rows(const Sweep& sweep) {
  nb::dict d;
  std::vector<int64_t> had, startup;
  for (const auto& p : sweep.processes) {
    had.insert(had.end(), std::begin(p->had.ns), std::end(p->had.ns));
    startup.insert(startup.end(), std::begin(p->had.startup), std::end(p->had.startup));
  }
  d["had"] = to_numpy(std::move(had));
  d["had_startup"] = to_numpy(std::move(startup));
  d["steps"] = column(sweep.processes, [](const auto& p) { return static_cast<int64_t>(p->steps); });
  return d;
}

nb::dict run_row(const Sweep& sweep) {
  nb::dict d;
  d["of"] = to_numpy(std::vector<int64_t>(std::begin(sweep.of.ns), std::end(sweep.of.ns)));
  d["of_startup"] = to_numpy(std::vector<int64_t>(std::begin(sweep.of.startup), std::end(sweep.of.startup)));
  d["cpu_first"] = sweep.cpu_first;
  d["cpu_last"] = sweep.cpu_last;
  d["steady_ns"] = sweep.steady_ns;
  return d;
}

nb::dict run(Sweep& sweep) {
  {
    nb::gil_scoped_release release;
    sweep.run();
  }
  nb::dict d;
  d["cells"] = cells(sweep);
  d["sites"] = sites(sweep);
  d["operations"] = operations(sweep);
  d["samples"] = sample_rows(sweep);
  d["threads"] = thread_rows(sweep);
  d["iterations"] = iterations(sweep);
  d["pauses"] = pauses(sweep);
  d["processes"] = process_rows(sweep);
  d["run"] = run_row(sweep);
  nb::list api;
  for (auto& p : sweep.processes) api.append(to_numpy(std::vector<uint32_t>(p->api_operation)));
  d["api_operation"] = api;
  return d;
}

void slice_by(Sweep& sweep, uint8_t slicing, uint64_t origin, uint64_t width, uint32_t count) {
  if (slicing > kByBin) throw nb::value_error("no such slicing");
  sweep.slice_by(static_cast<Slicing>(slicing), origin, width, count);
}

}  // namespace

void bind_sweep(nb::module_& m) {
  nb::class_<Sweep>(m, "Sweep")
      .def(nb::init<>())
      .def("add_process", &add_process, nb::arg("process"))
      .def("add_thread", &add_thread, nb::arg("process"), nb::arg("id"), nb::arg("sources"))
      .def("add_samples", &add_samples, nb::arg("process"), nb::arg("sources"))
      .def("set_device_work", &set_device_work, nb::arg("process"), nb::arg("api"), nb::arg("work"),
           nb::arg("offsets"), nb::arg("launchers"))
      .def("slice_by", &slice_by, nb::arg("slicing"), nb::arg("origin"), nb::arg("width"), nb::arg("count"))
      .def("run", &run);
}

}  // namespace cutaway
