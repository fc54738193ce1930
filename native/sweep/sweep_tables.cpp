// What a sweep has found, as columns of NumPy arrays.
#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/columns.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

nb::dict cells(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.timeline.ledger.cells; });
  c.add("thread", [](auto r) { return r.context(r.row.context).thread; });
  c.add("phase", [](auto r) { return r.context(r.row.context).phase; });
  c.add("operation", [](auto r) { return r.context(r.row.context).operation; });
  c.add("slice", [](auto r) { return r.context(r.row.context).slice; });
  c.add("why", [](auto r) { return static_cast<uint8_t>(r.context(r.row.context).why); });
  c.add("layer", [](auto r) { return static_cast<uint8_t>(r.row.state >> 3); });
  c.add("blocked", [](auto r) { return static_cast<uint8_t>(r.row.state >> 2 & 1); });
  c.add("busy", [](auto r) { return static_cast<uint8_t>(r.row.state >> 1 & 1); });
  c.add("busy_process", [](auto r) { return static_cast<uint8_t>(r.row.state & 1); });
  c.add("ns", [](auto r) { return r.row.ns; });
  c.add("calls", [](auto r) { return r.row.calls; });
  c.add("calls_made", [](auto r) { return r.row.calls_made; });
  c.add("operations", [](auto r) { return r.row.operations; });
  c.add("operations_made", [](auto r) { return r.row.operations_made; });
  c.add("begun", [](auto r) { return r.row.begun; });
  c.add("api_calls", [](auto r) { return r.row.api_calls; });
  c.add("api_calls_made", [](auto r) { return r.row.api_calls_made; });
  c.add("variance", [](auto r) { return r.row.variance; });
  return c.dict;
}

nb::dict sites(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.timeline.ledger.sites.entries(); });
  c.add("thread", [](auto r) { return r.context(r.row.key.context).thread; });
  c.add("phase", [](auto r) { return r.context(r.row.key.context).phase; });
  c.add("operation", [](auto r) { return r.context(r.row.key.context).operation; });
  c.add("slice", [](auto r) { return r.context(r.row.key.context).slice; });
  c.add("from", [](auto r) { return r.row.key.from; });
  c.add("call", [](auto r) { return r.row.key.call; });
  c.add("count", [](auto r) { return r.row.value.count; });
  c.add("ns", [](auto r) { return r.row.value.ns; });
  return c.dict;
}

nb::dict operations(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.timeline.ledger.operations.entries(); });
  c.add("process", [](auto r) { return r.process; });
  c.add("operation", [](auto r) { return r.row.key.operation; });
  c.add("slice", [](auto r) { return r.row.key.slice; });
  c.add("count", [](auto r) { return r.row.value.count; });
  c.add("total_ns", [](auto r) { return r.row.value.total; });
  c.add("sum_ns", [](auto r) { return r.row.value.sum; });
  c.add("outer", [](auto r) { return r.row.value.outer; });
  c.add("calls", [](auto r) { return r.row.value.inside.calls; });
  c.add("operations", [](auto r) { return r.row.value.inside.operations; });
  c.add("api_calls", [](auto r) { return r.row.value.inside.api_calls; });
  c.add("p50_ns", [](auto r) { return r.row.value.quantile(0.5); });
  c.add("p95_ns", [](auto r) { return r.row.value.quantile(0.95); });
  return c.dict;
}

nb::dict sample_rows(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.timeline.ledger.samples.entries(); });
  c.add("thread", [](auto r) { return r.context(r.row.key.context).thread; });
  c.add("operation", [](auto r) { return r.context(r.row.key.context).operation; });
  c.add("slice", [](auto r) { return r.context(r.row.key.context).slice; });
  c.add("layer", [](auto r) { return r.row.key.layer; });
  c.add("call", [](auto r) { return r.row.key.call; });
  c.add("frame", [](auto r) { return r.row.key.frame; });
  c.add("doing", [](auto r) { return static_cast<uint8_t>(r.row.key.doing); });
  c.add("count", [](auto r) { return r.row.value; });
  return c.dict;
}

nb::dict thread_rows(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.timeline.threads; });
  const auto counted = [](uint64_t ReadCounts::* field) {
    return [field](auto r) { return r.row->events ? r.row->events->counts().*field : uint64_t{0}; };
  };
  c.add("process", [](auto r) { return r.process; });
  c.add("first", [](auto r) { return r.row->first; });
  c.add("end", [](auto r) { return r.row->end; });
  c.add("traced_ns", [](auto r) { return r.row->traced_ns; });
  c.add("paused_ns", [](auto r) { return r.row->paused_ns; });
  c.add("cpu_ns", [](auto r) { return r.row->cpu_last - r.row->cpu_first; });
  c.add("has_cpu", [](auto r) { return static_cast<uint8_t>(r.row->cpu_seen); });
  c.add("iterations", [](auto r) { return r.row->iterations; });
  c.add("carries", [](auto r) { return static_cast<uint8_t>(r.row->carries); });
  c.add("unmatched", [](auto r) { return r.row->unmatched; });
  c.add("events", counted(&ReadCounts::events));
  c.add("disordered", counted(&ReadCounts::disordered));
  c.add("implausible", counted(&ReadCounts::implausible));
  c.add("damaged", counted(&ReadCounts::damaged));
  return c.dict;
}

nb::dict iterations(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.slices.passes.iterations; });
  c.add("process", [](auto r) { return r.process; });
  c.add("number", [](auto r) { return r.row.number; });
  c.add("count", [](auto r) { return r.row.count; });
  c.add("time", [](auto r) { return r.row.time; });
  c.add("steps", [](auto r) { return r.row.steps; });
  c.add("known", [](auto r) { return r.row.known; });
  c.add("paused", [](auto r) { return r.row.paused; });
  return c.dict;
}

nb::dict pauses(RunSweep& run) {
  Columns c(run, [](ProcessSweep& p) -> auto& { return p.timeline.pauses; });
  c.add("thread", [](auto r) { return r.row.thread + r.first_thread; });
  c.add("reason", [](auto r) { return r.row.reason; });
  c.add("start", [](auto r) { return r.row.start; });
  c.add("end", [](auto r) { return r.row.end; });
  return c.dict;
}

// The slowest iterations, a row for each cell of each.
nb::dict slowest(RunSweep& run) {
  struct SlowRow {
    const SlowIteration* iteration;
    SlowCell cell;
  };
  std::vector<SlowRow> rows;
  const auto rows_of = [&](ProcessSweep& p) -> auto& {
    rows.clear();
    for (const SlowIteration& i : p.slices.slowest.worst)
      for (const SlowCell& cell : i.cells) rows.push_back({&i, cell});
    return rows;
  };
  Columns c(run, rows_of);
  c.add("process", [](auto r) { return r.process; });
  c.add("number", [](auto r) { return r.row.iteration->number; });
  c.add("start", [](auto r) { return r.row.iteration->start; });
  c.add("end", [](auto r) { return r.row.iteration->end; });
  c.add("steps", [](auto r) { return r.row.iteration->steps; });
  c.add("thread", [](auto r) { return r.row.cell.thread + r.first_thread; });
  c.add("operation", [](auto r) { return r.row.cell.operation; });
  c.add("layer", [](auto r) { return static_cast<uint8_t>(r.row.cell.layer); });
  c.add("ns", [](auto r) { return r.row.cell.ns; });
  return c.dict;
}

template <int N>
void append_part(std::vector<int64_t>& to, const Overlap<N>& of, int part) {
  for (size_t at = 0; at < 1 << N; ++at) to.push_back(static_cast<int64_t>(of.of_part(part, at)));
}

// Time by mask of conditions (bit 0: traced thread, 1:
// executing thread, 2: busy device), 8 numbers a process.
nb::dict process_rows(const RunSweep& run) {
  nb::dict d;
  std::vector<int64_t> had, parts[2], steady, steps, startup_steps, timed, timed_ns, median, p99;
  for (const auto& p : run.processes) {
    had.insert(had.end(), std::begin(p->timeline.conditions.had.ns),
               std::end(p->timeline.conditions.had.ns));
    for (int part : {0, 1}) append_part(parts[part], p->timeline.conditions.had, part);
    steady.push_back(static_cast<int64_t>(p->slices.start_up().over_since));
    steps.push_back(static_cast<int64_t>(p->slices.steps));
    startup_steps.push_back(static_cast<int64_t>(p->slices.steps_startup));
    const Durations& durations = p->slices.slowest.durations;
    timed.push_back(static_cast<int64_t>(durations.count));
    timed_ns.push_back(static_cast<int64_t>(durations.sum));
    median.push_back(static_cast<int64_t>(durations.quantile(0.5)));
    p99.push_back(static_cast<int64_t>(durations.quantile(0.99)));
  }
  d["had"] = to_numpy(std::move(had));
  d["had_startup"] = to_numpy(std::move(parts[0]));
  d["had_shutdown"] = to_numpy(std::move(parts[1]));
  d["steady_ns"] = to_numpy(std::move(steady));
  d["steps"] = to_numpy(std::move(steps));
  d["steps_startup"] = to_numpy(std::move(startup_steps));
  d["timed"] = to_numpy(std::move(timed));
  d["timed_ns"] = to_numpy(std::move(timed_ns));
  d["median_ns"] = to_numpy(std::move(median));
  d["p99_ns"] = to_numpy(std::move(p99));
  return d;
}

nb::dict run_row(const RunSweep& run) {
  nb::dict d;
  uint64_t first = UINT64_MAX, last = 0;
  for (const auto& p : run.processes) {
    first = std::min(first, p->timeline.cpu_first);
    last = std::max(last, p->timeline.cpu_last);
  }
  d["cpu_first"] = first;
  d["cpu_last"] = last;
  if (run.processes.size() == 1)
    d["overlap"] = overlap_rows(run.processes[0]->timeline.conditions.of);
  return d;
}

// What calibration needs, of the threads that were paused for it.
nb::list units(const RunSweep& run) {
  nb::list out;
  for (const auto& p : run.processes)
    for (const auto& t : p->timeline.threads) {
      const auto& all = t->units.all;
      if (std::any_of(all.begin(), all.end(),
                      [](const UnitMark& m) { return m.reason == kCalibrationPause; }))
        out.append(bytes_of(all));
    }
  return out;
}

// Bins of all processes are made equally wide. `ns` holds the bins of one row after the other.
nb::dict lane_rows(RunSweep& run, size_t window) {
  uint64_t width = run.windows[window].width();
  for (auto& p : run.processes) width = std::max(width, p->drawing.lanes[window].width());
  for (auto& p : run.processes)
    while (p->drawing.lanes[window].width() < width) p->drawing.lanes[window].join_bins();
  Columns c(run,
            [window](ProcessSweep& p) -> auto& { return p.drawing.lanes[window].rows.entries(); });
  c.add("thread", [](auto r) { return r.row.key.thread + r.first_thread; });
  c.add("operation", [](auto r) { return r.row.key.operation; });
  c.add("layer", [](auto r) { return static_cast<uint8_t>(r.row.key.state >> 3); });
  c.add("blocked", [](auto r) { return static_cast<uint8_t>(r.row.key.state >> 2 & 1); });
  c.add("busy", [](auto r) { return static_cast<uint8_t>(r.row.key.state >> 1 & 1); });
  std::vector<int64_t> ns;
  for (auto& p : run.processes)
    for (auto& entry : p->drawing.lanes[window].rows.entries()) {
      ns.insert(ns.end(), entry.value.begin(), entry.value.end());
      entry.value = {};
    }
  std::vector<int64_t> steps, iterations;
  for (auto& p : run.processes) {
    const Lanes& own = p->drawing.lanes[window];
    steps.insert(steps.end(), own.steps.begin(), own.steps.end());
    iterations.insert(iterations.end(), own.iterations.begin(), own.iterations.end());
  }
  c.dict["ns"] = to_numpy(std::move(ns));
  c.dict["steps"] = to_numpy(std::move(steps));
  c.dict["iterations"] = to_numpy(std::move(iterations));
  c.dict["width"] = width;
  return c.dict;
}

}  // namespace

nb::dict overlap_rows(const Overlap<kOfs>& of) {
  nb::dict d;
  d["of"] = to_numpy(std::vector<int64_t>(std::begin(of.ns), std::end(of.ns)));
  std::vector<int64_t> parts[2];
  for (int part : {0, 1}) append_part(parts[part], of, part);
  d["of_startup"] = to_numpy(std::move(parts[0]));
  d["of_shutdown"] = to_numpy(std::move(parts[1]));
  return d;
}

nb::dict tables_of(RunSweep& run) {
  nb::dict d;
  d["cells"] = cells(run);
  d["sites"] = sites(run);
  d["operations"] = operations(run);
  d["samples"] = sample_rows(run);
  d["threads"] = thread_rows(run);
  d["iterations"] = iterations(run);
  d["pauses"] = pauses(run);
  d["slowest"] = slowest(run);
  d["processes"] = process_rows(run);
  d["run"] = run_row(run);
  d["units"] = units(run);
  add_device_tables(run, d);
  nb::list lanes;
  for (size_t i = 0; i < run.windows.size(); ++i) lanes.append(lane_rows(run, i));
  d["lanes"] = lanes;
  return d;
}

}  // namespace cutaway
