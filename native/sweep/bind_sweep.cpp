// The sweep as a Python class: filled process by process and run once. sweep_tables.cpp reads it
// out.
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/run_sweep.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

ProcessSweep& process_at(RunSweep& run, uint32_t process) {
  if (process >= run.processes.size()) throw nb::index_error("no such process");
  return *run.processes[process];
}

// `state`: what is known of the past of a process that kept only its last stretch in full; empty
// for others.
uint32_t add_process(RunSweep& run, std::shared_ptr<ProcessFiles> files, Input<uint8_t> state) {
  const uint32_t added = run.add_process(std::move(files));
  if (state.size() && !run.processes[added]->past.load(state.data(), state.size()))
    throw nb::value_error("damaged totals");
  return added;
}

// Threads are counted over all processes, so those of a process are added before the next process
// is.
uint32_t add_thread(RunSweep& run, uint32_t process, uint32_t id, Input<uint8_t> sources) {
  if (process + 1 != run.processes.size()) throw nb::index_error("not the last process");
  return run.add_thread(process, id, sources_of(*process_at(run, process).timeline.files, sources));
}

void add_samples(RunSweep& run, uint32_t process, Input<uint8_t> sources) {
  run.add_samples(process, sources_of(*process_at(run, process).timeline.files, sources));
}

// `threads`: for each that made API calls, which of the run it is. Threads that launched on stream
// i: launchers[offsets[i] … offsets[i + 1]).
void set_device_work(RunSweep& run, uint32_t process, const DeviceRecords& devices,
                     Input<uint32_t> threads, Input<uint32_t> offsets, Input<uint32_t> launchers) {
  ProcessSweep& p = process_at(run, process);
  const auto own = [&](uint32_t thread) {
    const uint32_t index = thread - run.first_thread[process];
    if (index >= p.timeline.threads.size()) throw nb::index_error("no such thread");
    return index;
  };
  p.devices.launches().expect_no_more_than(devices);
  set_devices(p, devices, threads, offsets, launchers, own);
}

void slice_by(RunSweep& run, uint8_t slicing) {
  if (slicing > kByIteration) throw nb::value_error("no such slicing");
  for (auto& p : run.processes) p->timeline.ledger.slicing = static_cast<Slicing>(slicing);
}

void follow_leader(RunSweep& run, Input<uint64_t> times, Input<uint32_t> slices,
                   bool even_with_iterations) {
  if (times.size() != slices.size()) throw nb::value_error("a slice for each time");
  std::vector<LeaderMark> marks;
  for (size_t i = 0; i < times.size(); ++i) marks.push_back({times.data()[i], slices.data()[i]});
  for (auto& p : run.processes) {
    if (p->past.is_loaded()) p->slices.decide(!even_with_iterations);
    p->follow_leader(marks, even_with_iterations);
  }
}

void end_steady(RunSweep& sweep, uint32_t process, uint64_t own, uint64_t run) {
  process_at(sweep, process).end_steady(own, run);
}

// Of each: where bins begin, how wide they are, how many, and whether they are joined when there
// are too few.
void draw(RunSweep& run,
          const std::vector<std::tuple<uint64_t, uint64_t, uint32_t, bool>>& windows) {
  if (windows.size() > kMostLanes) throw nb::value_error("too many lanes");
  run.windows.clear();
  for (const auto& [origin, width, count, grows] : windows) {
    if (!count || (grows && count % 2)) throw nb::value_error("the number of bins must be even");
    run.windows.emplace_back(origin, width, count, grows);
  }
  for (auto& p : run.processes) p->draw(run.windows);
}

nb::dict run_all(RunSweep& run) {
  {
    nb::gil_scoped_release release;
    run.run();
    for (auto& p : run.processes) p->timeline.ledger.divide_by_samples();
  }
  return tables_of(run);
}

nb::dict overlap_of_run(RunSweep& run, uint64_t steady, uint64_t over) {
  Overlap<kOfs> of;
  {
    nb::gil_scoped_release release;
    of = run.overlap(steady, over);
  }
  return overlap_rows(of);
}

// Of each process: its files, the sources of its threads, and what its past knows (ProcessRecords).
using Known = std::tuple<uint64_t, uint64_t, std::vector<uint8_t>>;
using Written = std::tuple<std::shared_ptr<ProcessFiles>, std::vector<Input<uint8_t>>, Known>;

std::vector<ProcessRecords> records_of(const std::vector<Written>& processes) {
  std::vector<ProcessRecords> out;
  for (const auto& [files, threads, known] : processes) {
    const auto& [first_iteration, since, paused] = known;
    out.push_back({files, {}, first_iteration, since, paused});
    for (const auto& sources : threads) out.back().threads.push_back(sources_of(*files, sources));
  }
  return out;
}

std::tuple<uint64_t, std::vector<uint64_t>> iterations_of(const std::vector<Written>& processes) {
  auto records = records_of(processes);
  nb::gil_scoped_release release;
  const Iterations found = find_iterations(std::move(records));
  return {found.second, found.first};
}

uint64_t first_work_of(const std::vector<Written>& processes) {
  auto records = records_of(processes);
  nb::gil_scoped_release release;
  return find_first_work(std::move(records));
}

}  // namespace

void bind_sweep(nb::module_& m) {
  m.def("find_iterations", &iterations_of, nb::arg("processes"));
  m.def("find_first_work", &first_work_of, nb::arg("processes"));
  nb::class_<RunSweep>(m, "Sweep")
      .def(nb::init<>())
      .def("add_process", &add_process, nb::arg("process"), nb::arg("state"))
      .def("add_thread", &add_thread, nb::arg("process"), nb::arg("id"), nb::arg("sources"))
      .def("add_samples", &add_samples, nb::arg("process"), nb::arg("sources"))
      .def("set_device_work", &set_device_work, nb::arg("process"), nb::arg("devices"),
           nb::arg("threads"), nb::arg("offsets"), nb::arg("launchers"))
      .def("slice_by", &slice_by, nb::arg("slicing"))
      .def("follow_leader", &follow_leader, nb::arg("times"), nb::arg("slices"),
           nb::arg("even_with_iterations") = false)
      .def("end_steady", &end_steady, nb::arg("process"), nb::arg("own"), nb::arg("run"))
      .def("draw", &draw, nb::arg("windows"))
      .def("run", &run_all)
      .def("overlap", &overlap_of_run, nb::arg("steady"), nb::arg("over"));
}

}  // namespace cutaway
