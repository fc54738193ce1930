// The past of one process that goes on, as a Python class: fed with what is on disk, saved as
// bytes.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "sweep/arrays.h"
#include "sweep/bind.h"
#include "sweep/sweep.h"

namespace nb = nanobind;

namespace cutaway {

namespace {

using Bins = std::tuple<uint64_t, uint64_t, uint32_t>;  // origin, width, count
using Thread =
    std::tuple<uint32_t, Input<uint8_t>, Input<uint8_t>>;  // id, sources, records of open calls

void make(ProcessSweep* self, std::shared_ptr<ProcessFiles> files, Bins bins,
          Input<uint8_t> state) {
  new (self) ProcessSweep(std::move(files));
  self->past.keep(std::get<0>(bins));
  const bool fine = !state.size() || self->past.load(state.data(), state.size());
  self->draw({Lanes(std::get<0>(bins), std::get<1>(bins), std::get<2>(bins), true)});
  if (!fine) throw nb::value_error("damaged totals");
}

using Launchers = std::tuple<Input<uint32_t>, Input<uint32_t>, Input<uint32_t>>;  // see set_devices

// All threads there are, in one order for ever; new ones at the end.
void take(ProcessSweep& sweep, std::shared_ptr<ProcessFiles> files, const std::vector<Thread>& all,
          Input<uint8_t> samples, const DeviceRecords& devices, const Launchers& launchers,
          uint64_t until) {
  Past& past = sweep.past;
  auto& threads = sweep.timeline.threads;
  past.refresh(files);
  for (size_t i = 0; i < all.size(); ++i) {
    const auto& [id, sources, open] = all[i];
    if (id <= kMaxId) {
      past.follow(id, sources_of(*files, sources), structures<Record>(open), until);
    } else if (i >= threads.size()) {
      sweep.add_thread(id, nullptr);
    }
  }
  const auto own = [&threads](uint32_t thread) {
    if (thread >= threads.size()) throw nb::index_error("no such thread");
    return thread;
  };
  sweep.devices.launches().expect(&devices);
  set_devices(sweep, devices, std::get<0>(launchers), std::get<1>(launchers),
              std::get<2>(launchers), own);
  if (samples.size()) past.follow_samples(sources_of(*files, samples), until);
  nb::gil_scoped_release release;
  sweep.run(until);
}

// Of each thread that has events, and behind them of the samples: how far they were read.
std::vector<std::pair<uint32_t, uint64_t>> positions(const ProcessSweep& sweep) {
  std::vector<std::pair<uint32_t, uint64_t>> out;
  for (const auto& t : sweep.timeline.threads)
    out.push_back(t->events ? t->events->position() : std::pair<uint32_t, uint64_t>{});
  out.push_back(sweep.past.samples_position());
  return out;
}

}  // namespace

void bind_keep(nb::module_& m) {
  nb::class_<ProcessSweep>(m, "Past")
      .def("__init__", &make, nb::arg("process"), nb::arg("bins"), nb::arg("state"))
      .def(
          "lead",
          [](ProcessSweep& s, uint64_t first_work, uint64_t steady) {
            s.past.lead(first_work, steady);
          },
          nb::arg("first_work"), nb::arg("steady"))
      .def("take", &take, nb::arg("process"), nb::arg("threads"), nb::arg("samples"),
           nb::arg("devices"), nb::arg("launchers"), nb::arg("until"))
      .def_prop_ro("reached", [](ProcessSweep& s) { return s.past.reached(); })
      .def_prop_ro("begun", [](ProcessSweep& s) { return s.past.begun(); })
      .def(
          "silent_since",
          [](ProcessSweep& s, uint32_t thread) { return s.past.silent_since(thread); },
          nb::arg("thread"))
      .def(
          "calibrates", [](ProcessSweep& s, uint32_t thread) { return s.past.calibrates(thread); },
          nb::arg("thread"))
      .def("positions", &positions)
      .def("save", [](ProcessSweep& s) { return to_numpy(s.past.save()); });
}

}  // namespace cutaway
